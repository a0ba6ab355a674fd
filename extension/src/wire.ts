// Generated from protocol/ by extension/tools/generate_wire.py. Do not edit: a test compares.

export const EXTENSION_PROTOCOL = 1;
export const EXTENSION_HANDSHAKE_MS = 5000;
export const EXTENSION_HEARTBEAT_MS = 20000;
export const MAX_EXTENSION_FRAME = 33554432;
export const MAX_HANDSHAKE_FRAME = 4096;
export const MAX_URL_CHARS = 4096;
export const MAX_ELEMENTS = 200;
export const MAX_OBSERVE_CHARS = 24000;
export const MAX_EXTRACT_CHARS = 24000;
export const MAX_EXTRACT_ROWS = 5000;
export const MAX_FIND_HITS = 50;
export const MAX_NAME_CHARS = 200;
export const MAX_KEY_TIMES = 100;
export const MAX_SCREENSHOT_PIXELS = 16000000;
export const MAX_SCREENSHOT_BYTES = 16777216;
export const MIN_TOKEN_CHARS = 16;
export const DEFAULT_PORT = 17321;

export const ArtifactFormatValues = ["json", "csv", "markdown"] as const;
export type ArtifactFormat = (typeof ArtifactFormatValues)[number];
export const ExtEventKindValues = ["tab-closed", "tab-replaced", "navigated", "detached", "crashed", "tab-opened", "tab-shared", "tab-withdrawn"] as const;
export type ExtEventKind = (typeof ExtEventKindValues)[number];
export const ExtRefusalValues = ["old-extension", "old-bridge", "not-paired", "not-allowed", "replaced", "throttled"] as const;
export type ExtRefusal = (typeof ExtRefusalValues)[number];
export const ExtractKindValues = ["text", "list", "table", "links", "article"] as const;
export type ExtractKind = (typeof ExtractKindValues)[number];
export const GestureValues = ["click", "double", "context", "hover", "drag"] as const;
export type Gesture = (typeof GestureValues)[number];
export const HistoryValues = ["back", "forward", "reload"] as const;
export type History = (typeof HistoryValues)[number];
export const InputKindValues = ["trusted", "synthetic"] as const;
export type InputKind = (typeof InputKindValues)[number];
export const InputModeValues = ["auto", "always", "never"] as const;
export type InputMode = (typeof InputModeValues)[number];
export const KeyValues = ["Enter", "Tab", "Shift+Tab", "Escape", "Space", "Backspace", "Delete", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "End", "PageUp", "PageDown", "Shift+Enter", "Shift+ArrowUp", "Shift+ArrowDown", "Shift+ArrowLeft", "Shift+ArrowRight", "Alt+ArrowUp", "Alt+ArrowDown", "Control+Enter", "Control+Home", "Control+End", "Control+A", "Control+B", "Control+I", "Control+Z", "Control+Y", "Control+C", "Control+X", "Control+V"] as const;
export type Key = (typeof KeyValues)[number];
export const LocatorByValues = ["test-id", "id", "name", "label", "text", "structure"] as const;
export type LocatorBy = (typeof LocatorByValues)[number];
export const ObserveModeValues = ["summary", "interactive", "document"] as const;
export type ObserveMode = (typeof ObserveModeValues)[number];
export const ScrollToValues = ["top", "bottom"] as const;
export type ScrollTo = (typeof ScrollToValues)[number];
export const ToolErrorCodeValues = ["invalid-arguments", "unknown-tool", "no-tab", "tab-not-leased", "tab-not-shared", "stale-ref", "not-found", "ambiguous-target", "not-visible", "covered", "disabled", "not-editable", "sensitive-field", "unknown-option", "timeout", "navigation-failed", "restricted-page", "error-page", "blocked-by-dialog", "page-crashed", "page-asleep", "pdf-page", "policy-denied", "too-large", "quota-exceeded", "extension-lost", "browser-lost", "cancelled", "internal"] as const;
export type ToolErrorCode = (typeof ToolErrorCodeValues)[number];
export const UntilValues = ["load", "idle", "text", "gone", "visible", "hidden", "url"] as const;
export type Until = (typeof UntilValues)[number];

export interface ExtHello {
  readonly t: "hello";
  readonly version: number;
  readonly extensionVersion: string;
  readonly nonce: string;
  readonly pairing: string;
  readonly profile: string;
  readonly capabilities?: ReadonlyArray<string>;
}

export interface ExtProof {
  readonly t: "proof";
  readonly mac: string;
}

export interface ExtPong {
  readonly t: "pong";
  readonly nonce: number;
}

export interface ExtReply {
  readonly t: "reply";
  readonly id: number;
  readonly ok?: PageReply;
  readonly error?: PageError;
}

export interface PageReply {
  readonly text?: string;
  readonly rows?: Rows;
  readonly image?: string;
  readonly width?: number;
  readonly height?: number;
  readonly tab?: number;
  readonly tabs?: ReadonlyArray<TabInfo>;
  readonly url?: string;
  readonly title?: string;
  readonly version?: string;
  readonly input?: InputKind;
  readonly changes?: Changes;
  readonly cursor?: string;
  readonly locator?: Locator;
  readonly settleUs?: number;
}

export interface Rows {
  readonly columns: ReadonlyArray<string>;
  readonly rows: ReadonlyArray<ReadonlyArray<string>>;
  readonly total: number;
}

export interface TabInfo {
  readonly tab: number;
  readonly url: string;
  readonly title?: string;
  readonly status?: string;
}

export interface Changes {
  readonly url?: boolean;
  readonly page?: boolean;
  readonly focus?: boolean;
  readonly value?: boolean;
  readonly valueLength?: number;
  readonly checked?: boolean;
  readonly newTab?: number;
  readonly dialog?: string;
  readonly download?: boolean;
}

export interface Locator {
  readonly candidates: ReadonlyArray<LocatorCandidate>;
  readonly role: string;
  readonly name: string;
  readonly hosts?: ReadonlyArray<string>;
  readonly frame?: LocatorFrame;
}

export interface LocatorCandidate {
  readonly by: LocatorBy;
  readonly css?: string;
  readonly xpath?: string;
}

export interface LocatorFrame {
  readonly url: string;
  readonly name?: string;
  readonly depth?: number;
}

export interface PageError {
  readonly code: ToolErrorCode;
  readonly message: string;
  readonly url?: string;
  readonly refsValid?: boolean;
  readonly retryable?: boolean;
  readonly mayHaveEffect?: boolean;
  readonly nextTool?: string;
}

export interface ExtEvent {
  readonly t: "event";
  readonly kind: ExtEventKind;
  readonly tab: number;
  readonly url?: string;
  readonly newTab?: number;
}

export interface ExtChallenge {
  readonly t: "challenge";
  readonly nonce: string;
  readonly connection: string;
  readonly mac: string;
}

export interface ExtReady {
  readonly t: "ready";
  readonly heartbeatMs: number;
  readonly input: InputMode;
}

export interface ExtRefused {
  readonly t: "refused";
  readonly code: ExtRefusal;
}

export interface ExtPing {
  readonly t: "ping";
  readonly nonce: number;
}

export interface ExtCommand {
  readonly t: "command";
  readonly id: number;
  readonly op: string;
  readonly args: unknown;
  readonly deadlineMs: number;
  readonly tab?: number;
  readonly tabs?: ReadonlyArray<number>;
}

export interface ExtCancel {
  readonly t: "cancel";
  readonly id: number;
}

export interface TabsListArgs {
}

export interface TabsOpenArgs {
  readonly url: string;
}

export interface TabsActivateArgs {
  readonly tab: string;
}

export interface TabsCloseArgs {
  readonly tab: string;
}

export interface NavigateArgs {
  readonly url?: string;
  readonly history?: History;
  readonly tab?: string;
}

export interface ObserveArgs {
  readonly mode?: ObserveMode;
  readonly max_elements?: number;
  readonly max_chars?: number;
  readonly cursor?: string;
  readonly tab?: string;
}

export interface FindArgs {
  readonly query: string;
  readonly role?: string;
  readonly limit?: number;
  readonly tab?: string;
}

export interface ClickArgs {
  readonly ref?: string;
  readonly name?: string;
  readonly role?: string;
  readonly target?: Target;
  readonly gesture?: Gesture;
  readonly to_ref?: string;
  readonly to_target?: Target;
  readonly tab?: string;
}

export interface Target {
  readonly role: string;
  readonly name?: string;
  readonly nth?: number;
}

export interface TypeArgs {
  readonly text: string;
  readonly ref?: string;
  readonly target?: Target;
  readonly clear?: boolean;
  readonly submit?: boolean;
  readonly tab?: string;
}

export interface PressArgs {
  readonly key: Key;
  readonly ref?: string;
  readonly target?: Target;
  readonly times?: number;
  readonly tab?: string;
}

export interface SelectArgs {
  readonly ref?: string;
  readonly target?: Target;
  readonly values?: ReadonlyArray<string>;
  readonly checked?: boolean;
  readonly tab?: string;
}

export interface ScrollArgs {
  readonly viewports?: number;
  readonly to?: ScrollTo;
  readonly ref?: string;
  readonly target?: Target;
  readonly tab?: string;
}

export interface WaitArgs {
  readonly until: Until;
  readonly text?: string;
  readonly url?: string;
  readonly ref?: string;
  readonly target?: Target;
  readonly timeout_ms?: number;
  readonly tab?: string;
}

export interface ExtractArgs {
  readonly kind: ExtractKind;
  readonly region_ref?: string;
  readonly target?: Target;
  readonly fields?: ReadonlyArray<string>;
  readonly limit?: number;
  readonly main_only?: boolean;
  readonly to_artifact?: ArtifactFormat;
  readonly tab?: string;
}

export interface ScreenshotArgs {
  readonly full_page?: boolean;
  readonly ref?: string;
  readonly target?: Target;
  readonly tab?: string;
}

export interface LocatorArgs {
  readonly ref?: string;
  readonly target?: Target;
  readonly locator?: string;
  readonly tab?: string;
}

export type UpFrame = ExtHello | ExtProof | ExtPong | ExtReply | ExtEvent;
export type DownFrame = ExtChallenge | ExtReady | ExtRefused | ExtPing | ExtCommand | ExtCancel;

/** Arguments of each op, by its name. */
export interface OpArgs {
  readonly browser_tabs_list: TabsListArgs;
  readonly browser_tabs_open: TabsOpenArgs;
  readonly browser_tabs_activate: TabsActivateArgs;
  readonly browser_tabs_close: TabsCloseArgs;
  readonly browser_page_navigate: NavigateArgs;
  readonly browser_page_observe: ObserveArgs;
  readonly browser_page_find: FindArgs;
  readonly browser_page_click: ClickArgs;
  readonly browser_page_type: TypeArgs;
  readonly browser_page_press: PressArgs;
  readonly browser_page_select: SelectArgs;
  readonly browser_page_scroll: ScrollArgs;
  readonly browser_page_wait: WaitArgs;
  readonly browser_page_extract: ExtractArgs;
  readonly browser_page_screenshot: ScreenshotArgs;
  readonly browser_page_locator: LocatorArgs;
}

/** Whether an op may change something outside the browser's own view of the page. */
export const OP_EFFECT: Readonly<Record<keyof OpArgs, boolean>> = {
  browser_tabs_list: false,
  browser_tabs_open: true,
  browser_tabs_activate: false,
  browser_tabs_close: true,
  browser_page_navigate: true,
  browser_page_observe: false,
  browser_page_find: false,
  browser_page_click: true,
  browser_page_type: true,
  browser_page_press: true,
  browser_page_select: true,
  browser_page_scroll: false,
  browser_page_wait: false,
  browser_page_extract: false,
  browser_page_screenshot: false,
  browser_page_locator: false,
};

/** JSON Schema of each op's arguments. */
export const ARG_SCHEMAS: Readonly<Record<keyof OpArgs, object>> = {
  browser_tabs_list: {"type": "object", "properties": {}, "required": [], "additionalProperties": false},
  browser_tabs_open: {"type": "object", "properties": {"url": {"type": "string", "maxLength": 4096, "minLength": 1}}, "required": ["url"], "additionalProperties": false},
  browser_tabs_activate: {"type": "object", "properties": {"tab": {"type": "string", "pattern": "^t[0-9]{1,4}$"}}, "required": [], "additionalProperties": false},
  browser_tabs_close: {"type": "object", "properties": {"tab": {"type": "string", "pattern": "^t[0-9]{1,4}$"}}, "required": [], "additionalProperties": false},
  browser_page_navigate: {"type": "object", "properties": {"url": {"type": "string", "maxLength": 4096, "minLength": 1}, "history": {"enum": ["back", "forward", "reload"]}, "tab": {"type": "string", "pattern": "^t[0-9]{1,4}$"}}, "required": [], "additionalProperties": false},
  browser_page_observe: {"type": "object", "properties": {"mode": {"enum": ["document", "interactive", "summary"]}, "max_elements": {"type": "integer", "minimum": 1, "maximum": 200}, "max_chars": {"type": "integer", "minimum": 200, "maximum": 24000}, "cursor": {"type": "string", "maxLength": 32}, "tab": {"type": "string", "pattern": "^t[0-9]{1,4}$"}}, "required": [], "additionalProperties": false},
  browser_page_find: {"type": "object", "properties": {"query": {"type": "string", "maxLength": 200, "minLength": 1}, "role": {"type": "string", "maxLength": 32, "minLength": 1, "pattern": "^[a-z]+$"}, "limit": {"type": "integer", "minimum": 1, "maximum": 50}, "tab": {"type": "string", "pattern": "^t[0-9]{1,4}$"}}, "required": ["query"], "additionalProperties": false},
  browser_page_click: {"type": "object", "properties": {"ref": {"type": "string", "pattern": "^(f[0-9]{1,4})?e[0-9]{1,7}$"}, "name": {"type": "string", "maxLength": 200, "minLength": 1}, "role": {"type": "string", "maxLength": 32, "minLength": 1, "pattern": "^[a-z]+$"}, "target": {"type": "object", "properties": {"role": {"type": "string", "maxLength": 32, "minLength": 1, "pattern": "^[a-z]+$"}, "name": {"type": "string", "maxLength": 200, "minLength": 1}, "nth": {"type": "integer", "minimum": 1, "maximum": 1000}}, "required": ["role"], "additionalProperties": false}, "gesture": {"enum": ["click", "context", "double", "drag", "hover"]}, "to_ref": {"type": "string", "pattern": "^(f[0-9]{1,4})?e[0-9]{1,7}$"}, "to_target": {"type": "object", "properties": {"role": {"type": "string", "maxLength": 32, "minLength": 1, "pattern": "^[a-z]+$"}, "name": {"type": "string", "maxLength": 200, "minLength": 1}, "nth": {"type": "integer", "minimum": 1, "maximum": 1000}}, "required": ["role"], "additionalProperties": false}, "tab": {"type": "string", "pattern": "^t[0-9]{1,4}$"}}, "required": [], "additionalProperties": false},
  browser_page_type: {"type": "object", "properties": {"text": {"type": "string", "maxLength": 10000}, "ref": {"type": "string", "pattern": "^(f[0-9]{1,4})?e[0-9]{1,7}$"}, "target": {"type": "object", "properties": {"role": {"type": "string", "maxLength": 32, "minLength": 1, "pattern": "^[a-z]+$"}, "name": {"type": "string", "maxLength": 200, "minLength": 1}, "nth": {"type": "integer", "minimum": 1, "maximum": 1000}}, "required": ["role"], "additionalProperties": false}, "clear": {"type": "boolean"}, "submit": {"type": "boolean"}, "tab": {"type": "string", "pattern": "^t[0-9]{1,4}$"}}, "required": ["text"], "additionalProperties": false},
  browser_page_press: {"type": "object", "properties": {"key": {"enum": ["Alt+ArrowDown", "Alt+ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "ArrowUp", "Backspace", "Control+A", "Control+B", "Control+C", "Control+End", "Control+Enter", "Control+Home", "Control+I", "Control+V", "Control+X", "Control+Y", "Control+Z", "Delete", "End", "Enter", "Escape", "Home", "PageDown", "PageUp", "Shift+ArrowDown", "Shift+ArrowLeft", "Shift+ArrowRight", "Shift+ArrowUp", "Shift+Enter", "Shift+Tab", "Space", "Tab"]}, "ref": {"type": "string", "pattern": "^(f[0-9]{1,4})?e[0-9]{1,7}$"}, "target": {"type": "object", "properties": {"role": {"type": "string", "maxLength": 32, "minLength": 1, "pattern": "^[a-z]+$"}, "name": {"type": "string", "maxLength": 200, "minLength": 1}, "nth": {"type": "integer", "minimum": 1, "maximum": 1000}}, "required": ["role"], "additionalProperties": false}, "times": {"type": "integer", "minimum": 1, "maximum": 100}, "tab": {"type": "string", "pattern": "^t[0-9]{1,4}$"}}, "required": ["key"], "additionalProperties": false},
  browser_page_select: {"type": "object", "properties": {"ref": {"type": "string", "pattern": "^(f[0-9]{1,4})?e[0-9]{1,7}$"}, "target": {"type": "object", "properties": {"role": {"type": "string", "maxLength": 32, "minLength": 1, "pattern": "^[a-z]+$"}, "name": {"type": "string", "maxLength": 200, "minLength": 1}, "nth": {"type": "integer", "minimum": 1, "maximum": 1000}}, "required": ["role"], "additionalProperties": false}, "values": {"type": "array", "items": {"type": "string", "maxLength": 200}, "maxItems": 50}, "checked": {"type": "boolean"}, "tab": {"type": "string", "pattern": "^t[0-9]{1,4}$"}}, "required": [], "additionalProperties": false},
  browser_page_scroll: {"type": "object", "properties": {"viewports": {"type": "number", "minimum": -20, "maximum": 20}, "to": {"enum": ["bottom", "top"]}, "ref": {"type": "string", "pattern": "^(f[0-9]{1,4})?e[0-9]{1,7}$"}, "target": {"type": "object", "properties": {"role": {"type": "string", "maxLength": 32, "minLength": 1, "pattern": "^[a-z]+$"}, "name": {"type": "string", "maxLength": 200, "minLength": 1}, "nth": {"type": "integer", "minimum": 1, "maximum": 1000}}, "required": ["role"], "additionalProperties": false}, "tab": {"type": "string", "pattern": "^t[0-9]{1,4}$"}}, "required": [], "additionalProperties": false},
  browser_page_wait: {"type": "object", "properties": {"until": {"enum": ["gone", "hidden", "idle", "load", "text", "url", "visible"]}, "text": {"type": "string", "maxLength": 200, "minLength": 1}, "url": {"type": "string", "maxLength": 200, "minLength": 1}, "ref": {"type": "string", "pattern": "^(f[0-9]{1,4})?e[0-9]{1,7}$"}, "target": {"type": "object", "properties": {"role": {"type": "string", "maxLength": 32, "minLength": 1, "pattern": "^[a-z]+$"}, "name": {"type": "string", "maxLength": 200, "minLength": 1}, "nth": {"type": "integer", "minimum": 1, "maximum": 1000}}, "required": ["role"], "additionalProperties": false}, "timeout_ms": {"type": "integer", "minimum": 100, "maximum": 30000}, "tab": {"type": "string", "pattern": "^t[0-9]{1,4}$"}}, "required": ["until"], "additionalProperties": false},
  browser_page_extract: {"type": "object", "properties": {"kind": {"enum": ["article", "links", "list", "table", "text"]}, "region_ref": {"type": "string", "pattern": "^(f[0-9]{1,4})?e[0-9]{1,7}$"}, "target": {"type": "object", "properties": {"role": {"type": "string", "maxLength": 32, "minLength": 1, "pattern": "^[a-z]+$"}, "name": {"type": "string", "maxLength": 200, "minLength": 1}, "nth": {"type": "integer", "minimum": 1, "maximum": 1000}}, "required": ["role"], "additionalProperties": false}, "fields": {"type": "array", "items": {"type": "string", "maxLength": 80}, "maxItems": 32}, "limit": {"type": "integer", "minimum": 1, "maximum": 5000}, "main_only": {"type": "boolean"}, "to_artifact": {"enum": ["csv", "json", "markdown"]}, "tab": {"type": "string", "pattern": "^t[0-9]{1,4}$"}}, "required": ["kind"], "additionalProperties": false},
  browser_page_screenshot: {"type": "object", "properties": {"full_page": {"type": "boolean"}, "ref": {"type": "string", "pattern": "^(f[0-9]{1,4})?e[0-9]{1,7}$"}, "target": {"type": "object", "properties": {"role": {"type": "string", "maxLength": 32, "minLength": 1, "pattern": "^[a-z]+$"}, "name": {"type": "string", "maxLength": 200, "minLength": 1}, "nth": {"type": "integer", "minimum": 1, "maximum": 1000}}, "required": ["role"], "additionalProperties": false}, "tab": {"type": "string", "pattern": "^t[0-9]{1,4}$"}}, "required": [], "additionalProperties": false},
  browser_page_locator: {"type": "object", "properties": {"ref": {"type": "string", "pattern": "^(f[0-9]{1,4})?e[0-9]{1,7}$"}, "target": {"type": "object", "properties": {"role": {"type": "string", "maxLength": 32, "minLength": 1, "pattern": "^[a-z]+$"}, "name": {"type": "string", "maxLength": 200, "minLength": 1}, "nth": {"type": "integer", "minimum": 1, "maximum": 1000}}, "required": ["role"], "additionalProperties": false}, "locator": {"type": "string", "maxLength": 64, "minLength": 1, "pattern": "^[A-Za-z0-9_-]+$"}, "tab": {"type": "string", "pattern": "^t[0-9]{1,4}$"}}, "required": [], "additionalProperties": false},
};

/** JSON Schema of what a `locate` command carries. */
export const LOCATOR_SCHEMA: object = {"type": "object", "properties": {"candidates": {"type": "array", "items": {"type": "object", "properties": {"by": {"enum": ["id", "label", "name", "structure", "test-id", "text"]}, "css": {"type": "string", "maxLength": 1000}, "xpath": {"type": "string", "maxLength": 1000}}, "required": ["by"], "additionalProperties": false}, "maxItems": 8, "minItems": 1}, "role": {"type": "string", "maxLength": 32}, "name": {"type": "string", "maxLength": 200}, "hosts": {"type": "array", "items": {"type": "string", "maxLength": 1000}, "maxItems": 8}, "frame": {"type": "object", "properties": {"url": {"type": "string", "maxLength": 4096}, "name": {"type": "string", "maxLength": 200}, "depth": {"type": "integer", "minimum": 1, "maximum": 16}}, "required": ["url"], "additionalProperties": false}}, "required": ["candidates", "role", "name"], "additionalProperties": false};

/** JSON Schema of each frame that comes down, by its tag. */
export const DOWN_SCHEMAS: Readonly<Record<DownFrame["t"], object>> = {
  challenge: {"type": "object", "properties": {"t": {"enum": ["challenge"]}, "nonce": {"type": "string", "pattern": "^[0-9a-f]{64}$"}, "connection": {"type": "string", "pattern": "^[0-9a-f]{64}$"}, "mac": {"type": "string", "pattern": "^[0-9a-f]{64}$"}}, "required": ["t", "nonce", "connection", "mac"], "additionalProperties": false},
  ready: {"type": "object", "properties": {"t": {"enum": ["ready"]}, "heartbeatMs": {"type": "integer", "minimum": 0}, "input": {"enum": ["always", "auto", "never"]}}, "required": ["t", "heartbeatMs", "input"], "additionalProperties": false},
  refused: {"type": "object", "properties": {"t": {"enum": ["refused"]}, "code": {"enum": ["not-allowed", "not-paired", "old-bridge", "old-extension", "replaced", "throttled"]}}, "required": ["t", "code"], "additionalProperties": false},
  ping: {"type": "object", "properties": {"t": {"enum": ["ping"]}, "nonce": {"type": "integer", "minimum": 0}}, "required": ["t", "nonce"], "additionalProperties": false},
  command: {"type": "object", "properties": {"t": {"enum": ["command"]}, "id": {"type": "integer", "minimum": 0}, "op": {"type": "string"}, "args": {}, "deadlineMs": {"type": "integer", "minimum": 0}, "tab": {"type": "integer"}, "tabs": {"type": "array", "items": {"type": "integer"}}}, "required": ["t", "id", "op", "args", "deadlineMs"], "additionalProperties": false},
  cancel: {"type": "object", "properties": {"t": {"enum": ["cancel"]}, "id": {"type": "integer", "minimum": 0}}, "required": ["t", "id"], "additionalProperties": false},
};
