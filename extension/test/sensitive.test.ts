import assert from "node:assert/strict";
import { test } from "node:test";
import { type FieldFacts, isSensitive, wordsOf } from "../src/page/sensitive";

const field = (facts: Partial<FieldFacts>): boolean =>
  isSensitive({ tag: "input", type: "text", autocomplete: "", identifiers: [], labels: [], masked: false, ...facts });

const labelled = (...labels: string[]): boolean => field({ labels });
const named = (...identifiers: string[]): boolean => field({ identifiers });

test("by type, autocomplete and style", () => {
  assert.ok(field({ type: "password" }));
  assert.ok(field({ masked: true }));
  assert.ok(field({ autocomplete: "section-a billing cc-number" }));
  assert.ok(field({ autocomplete: "ONE-TIME-CODE" }));
  assert.ok(!field({ autocomplete: "username" }));
  assert.ok(!field({ autocomplete: "cc-name" }));
});

test("by English labels", () => {
  for (const label of [
    "Password",
    "Your passcode",
    "OTP",
    "One-time code",
    "CVV",
    "Card number",
    "Security code",
    "API key",
    "Access key ID",
    "Client secret",
    "Personal access token",
    "PIN",
    "Verification code",
    "2FA code",
    "Social Security number",
    "IBAN",
    "Recovery phrase",
  ]) {
    assert.ok(labelled(label), label);
  }
});

test("by Chinese labels", () => {
  for (const label of ["密码", "登录密码", "请输入密碼", "验证码", "短信驗證碼", "银行卡号", "信用卡", "安全码", "动态口令", "访问令牌", "密钥", "身份证号码"]) {
    assert.ok(labelled(label), label);
  }
});

test("by identifiers in every style of writing", () => {
  for (const name of ["user_password", "newPassword", "userpassword", "apiKey", "api_key", "APIKey", "cardNumber", "cc-number", "otp", "totpCode", "cvv2", "csrf_token", "clientSecret"]) {
    assert.ok(named(name), name);
  }
});

test("ordinary fields stay usable", () => {
  for (const label of ["Name", "E-mail", "Search", "Postcode", "Zip code", "Country code", "Discount code", "Shipping address", "Keyword", "Opinion", "Spinner", "Passenger", "Passport country", "Card holder", "姓名", "邮箱", "搜索", "电话号码", "收货地址"]) {
    assert.ok(!labelled(label), label);
  }
  for (const name of ["username", "pinned", "shopping", "keywords", "compass", "q", "notes"]) assert.ok(!named(name), name);
});

test("buttons and boxes hold no secret", () => {
  assert.ok(!field({ type: "checkbox", labels: ["Show password"] }));
  assert.ok(!field({ type: "submit", labels: ["Reset password"] }));
  assert.ok(!field({ type: "radio", labels: ["Use a token"] }));
});

test("a long label costs no more than a short one", () => {
  assert.ok(wordsOf("word ".repeat(100_000)).length <= 100);
});
