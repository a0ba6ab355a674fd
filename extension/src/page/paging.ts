/**
 * Which controls turn pages, and which links act: by what they say (English, Chinese, arrows, numbers) and their company.
 *
 * Pure: takes names, knows no DOM.
 */

const ARROWS = "«»‹›<>←→⟨⟩◀▶⏮⏭⇤⇥|";
const WORDS = [
  "next|previous|prev|older|newer|first|last|back to top",
  "(?:next|previous|prev|first|last|older|newer)(?: (?:page|results?|posts?|entries|items|articles|messages|month|week|day))",
  "(?:go to|to|show) (?:the )?(?:next|previous|first|last) page",
  "(?:load|show|see|view) (?:\\d+ )?(?:more|all)(?: \\w+)?|more(?: results| items| posts)?",
];
const CHINESE = [
  "(?:上|下|前|后|後)(?:一|1)?(?:页|頁|篇|章|条|條|个|個|月)",
  "(?:首|尾|末|第一|最后一|最後一)(?:页|頁)",
  "(?:加载|載入|加載|显示|顯示|查看|浏览|瀏覽|点击查看|點擊查看)?(?:更多|全部)(?:内容|內容|结果|結果|评论|評論)?",
  "翻页|翻頁|下一步|上一步",
];
const SAID = new RegExp(`^(?:${[...WORDS, ...CHINESE].join("|")})$`, "i");
const ONLY_ARROWS = new RegExp(`^[${ARROWS}]{1,3}$`);
const AROUND = new RegExp(`^[${ARROWS}\\s.…]+|[${ARROWS}\\s.…]+$`, "g");
const NUMBER = /^(?:(?:go to |to )?(?:page|p\.?) ?)?([0-9]{1,5})$|^第? ?([0-9]{1,5}) ?(?:页|頁)$/i;

/** Whether a name alone says that the control turns pages or brings more. */
export function saysPaging(name: string): boolean {
  if (name.length > 40) return false;
  if (ONLY_ARROWS.test(name.replace(/\s/g, ""))) return true;
  const bare = name.replace(AROUND, "");
  return bare !== "" && SAID.test(bare);
}

/** The number of the page that a name means ("3", "Page 3", "第3页"); 0 if it means none. */
export function pageNumber(name: string): number {
  const match = NUMBER.exec(name.trim());
  return match === null ? 0 : Number(match[1] ?? match[2]);
}

/**
 * Which of the controls of one container turn pages, given their names in order: those that say so, and numbers that count up
 * beside each other (gaps as in "1 2 3 … 50" are bridged) as long as at least three do, or one beside a control that says so, or
 * in a container that is `marked` as one for paging.
 */
export function pagingAmong(names: readonly string[], marked = false): boolean[] {
  const numbers = names.map(pageNumber);
  const says = names.map(saysPaging);
  const counted = numbers.filter((number) => number > 0);
  const rising = counted.every((number, i) => i === 0 || number > (counted[i - 1] ?? 0));
  const pages = rising && (counted.length >= 3 || (counted.length > 0 && (marked || says.some(Boolean))));
  return names.map((_, i) => (says[i] ?? false) || (pages && (numbers[i] ?? 0) > 0));
}

const VERBS =
  "accept|add|apply|approve|book|buy|cancel|check ?out|clear|close|compose|continue|copy|create|decline|delete|dismiss|download|edit|export|import|log ?(?:in|out)|new|order|pay|print|" +
  "register|reject|remove|reply|reset|save|search|send|settings|share|sign ?(?:in|out|up)|start|submit|subscribe|update|upload|write";
const CHINESE_VERBS =
  "保存|编辑|編輯|删除|刪除|添加|新增|新建|创建|創建|修改|取消|确认|確認|确定|確定|提交|搜索|搜尋|查询|查詢|登录|登入|登錄|注册|註冊|退出|登出|下载|下載|上传|上傳|导出|導出|匯出|导入|" +
  "導入|购买|購買|结算|結算|支付|订阅|訂閱|回复|回覆|发布|發布|发送|發送|设置|設定|继续|繼續|预订|預訂";
const ACTS = new RegExp(`^[^\\p{L}\\p{N}]{0,3}(?:(?:${VERBS})(?:$|[ :(…])|(?:立即|马上|馬上|重新|批量)?(?:${CHINESE_VERBS}))`, "iu");
const ACTING_CLASS = /(?:^|[\s_-])(?:btn|button|cta)(?:$|[\s_-])|(?:add|delete|edit|remove|create|new)-?link/i;

/** Whether a link does something rather than leads somewhere, by what it says or by how it is drawn (its class). */
export const actsByName = (name: string, className: string): boolean => name.length <= 40 && (ACTS.test(name) || ACTING_CLASS.test(className));
