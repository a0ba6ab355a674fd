import assert from "node:assert/strict";
import { test } from "node:test";
import { actsByName, pageNumber, pagingAmong, saysPaging } from "../src/page/paging";

test("names that turn pages", () => {
  for (const name of [
    "Next", "next page", "Previous", "« Previous", "Next ›", "›", "»", "→", "< Prev", "Older posts", "Load more", "Show 20 more", "More results", "Last",
    "下一页", "上一頁", "下页", "首页", "尾页", "末页", "加载更多", "查看更多", "更多", "下一页 >", "下一篇", "Go to next page", "Next month",
  ]) {
    assert.ok(saysPaging(name), name);
  }
  for (const name of ["Next of kin", "Save", "More about us and our history", "", "Home", "更多精彩尽在这里", "First name", "…", "x".repeat(60), "Lastly"]) {
    assert.ok(!saysPaging(name), name);
  }
});

test("numbers of pages", () => {
  assert.equal(pageNumber("3"), 3);
  assert.equal(pageNumber("Page 12"), 12);
  assert.equal(pageNumber("Go to page 7"), 7);
  assert.equal(pageNumber("第 4 页"), 4);
  assert.equal(pageNumber("5頁"), 5);
  for (const name of ["", "0x1", "3rd", "2026-01-01", "123456", "Page"]) assert.equal(pageNumber(name), 0, name);
});

test("numbers count as pages only in company", () => {
  assert.deepEqual(pagingAmong(["1", "2", "3"]), [true, true, true]);
  assert.deepEqual(pagingAmong(["1", "2", "Next"]), [true, true, true]);
  assert.deepEqual(pagingAmong(["1", "2", "…", "50", "›"]), [true, true, false, true, true]);
  assert.deepEqual(pagingAmong(["1", "2"]), [false, false]);
  assert.deepEqual(pagingAmong(["5", "3", "8"]), [false, false, false]);
  assert.deepEqual(pagingAmong(["Home", "2", "Next"]), [false, true, true]);
  assert.deepEqual(pagingAmong(["2", "3"], true), [true, true]);
  assert.deepEqual(pagingAmong(["3", "2"], true), [false, false]);
  assert.deepEqual(pagingAmong([]), []);
});

test("links that act", () => {
  for (const name of ["Delete", "Add user", "+ New", "✖ Clear all filters", "Sign in", "Log out", "Edit name", "Export CSV", "删除", "立即购买", "编辑资料"]) assert.ok(actsByName(name, ""), name);
  assert.ok(actsByName("Go ahead", "nav btn btn-primary"));
  assert.ok(actsByName("History", "historylink addlink"));
  for (const name of ["Address", "News", "Newsroom", "Deleted scenes", "Home", "Savings", "x Delete", "新闻", ""]) assert.ok(!actsByName(name, "menu"), name);
});
