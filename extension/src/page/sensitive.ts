/**
 * Which fields are sensitive (design 5): their value and length never leave the page.
 *
 * A field is sensitive by its type, by its autocomplete token, or by a word in its name, id, placeholder or accessible
 * name, in English or Chinese. The lists err on the side of refusing: a refused field costs a question to the user, a
 * leaked one costs a password. Pure: takes strings, knows no DOM.
 */

export interface FieldFacts {
  /** Tag name, lower case. */
  readonly tag: string;
  /** The `type` of an input, lower case; empty for others. */
  readonly type: string;
  readonly autocomplete: string;
  /** `name`, `id` and similar attributes: words run together or in camel case. */
  readonly identifiers: readonly string[];
  /** Accessible name, placeholder, title: human words. */
  readonly labels: readonly string[];
  /** Shown as dots by style. */
  readonly masked: boolean;
}

const AUTOCOMPLETE = new Set([
  "current-password",
  "new-password",
  "one-time-code",
  "cc-number",
  "cc-csc",
  "cc-exp",
  "cc-exp-month",
  "cc-exp-year",
]);

/** Inputs that hold no secret text whatever they are called: "Show password" is a checkbox. */
const NEVER = new Set(["button", "checkbox", "color", "file", "hidden", "image", "radio", "range", "reset", "submit"]);

/** Whole words. */
const WORDS = new Set([
  "2fa",
  "apikey",
  "cardnumber",
  "ccnum",
  "ccnumber",
  "creditcard",
  "credential",
  "credentials",
  "csc",
  "cvc",
  "cvc2",
  "cvv",
  "cvv2",
  "iban",
  "mfa",
  "mnemonic",
  "otp",
  "passcode",
  "passphrase",
  "passwd",
  "password",
  "passwords",
  "pin",
  "pwd",
  "secret",
  "secrets",
  "ssn",
  "token",
  "tokens",
  "totp",
]);

/** Neighbouring words. */
const PHRASES = [
  "access key",
  "api key",
  "authentication code",
  "auth code",
  "backup code",
  "card code",
  "card no",
  "card number",
  "card verification",
  "cc no",
  "cc num",
  "cc number",
  "client secret",
  "credit card",
  "debit card",
  "login code",
  "one time code",
  "one time pass",
  "pass code",
  "pass phrase",
  "pass word",
  "private key",
  "recovery code",
  "recovery phrase",
  "secret key",
  "security code",
  "security answer",
  "seed phrase",
  "sms code",
  "social security",
  "two factor",
  "verification code",
  "verify code",
];

/** Run together in an identifier, where no boundary tells the words apart. */
const PARTS = ["password", "passwd", "passphrase", "passcode", "apikey", "cardnumber", "creditcard", "securitycode"];

const CHINESE = [
  "密码",
  "密碼",
  "口令",
  "验证码",
  "驗證碼",
  "校验码",
  "校驗碼",
  "动态码",
  "動態碼",
  "短信码",
  "授权码",
  "授權碼",
  "安全码",
  "安全碼",
  "卡号",
  "卡號",
  "银行卡",
  "銀行卡",
  "信用卡",
  "令牌",
  "密钥",
  "密鑰",
  "私钥",
  "私鑰",
  "助记词",
  "助記詞",
  "身份证号",
  "身份證號",
  "暗号",
  "暗號",
];

/** Lower-case words of a label or identifier: camel case and separators are boundaries. */
export function wordsOf(text: string): string[] {
  return text
    .slice(0, 400) // a label is short; a page may not make this expensive
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .replace(/([A-Z]+|[0-9])([A-Z][a-z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== "");
}

function isSecretText(text: string, identifier: boolean): boolean {
  if (text === "") return false;
  const words = wordsOf(text);
  if (words.some((word) => WORDS.has(word))) return true;
  const spoken = ` ${words.join(" ")} `;
  if (PHRASES.some((phrase) => spoken.includes(` ${phrase} `))) return true;
  if (CHINESE.some((word) => text.includes(word))) return true;
  const together = words.join("");
  return identifier && PARTS.some((part) => together.includes(part));
}

/** Whether a field with these facts is sensitive. */
export function isSensitive(facts: FieldFacts): boolean {
  if (facts.tag === "input" && NEVER.has(facts.type)) return false;
  if (facts.type === "password" || facts.masked) return true;
  if (facts.autocomplete.toLowerCase().split(/\s+/).some((token) => AUTOCOMPLETE.has(token))) return true;
  return (
    facts.identifiers.some((text) => isSecretText(text, true)) || facts.labels.some((text) => isSecretText(text, false))
  );
}
