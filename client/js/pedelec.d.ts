export declare const version: string;

export type EffortLevel = "default" | "low" | "high";

export type PedelecSessionStatus = "idle" | "running" | "waiting_tool_result" | "ended" | "error";

/** A path below the assets folder, like `/results/report.json`. */
export type AssetPath = `/${string}`;

export type JsonValue = null | boolean | number | string | JsonValue[] | { [key: string]: JsonValue };

/** `code` is what a program acts on; `message` is for people. */
export declare class PedelecError extends Error {
  readonly code: string;
  readonly details?: Record<string, unknown>;
  constructor(code: string, message?: string, details?: Record<string, unknown>);
}

export interface PedelecOptions {
  /**
   * Where the daemon listens: `127.0.0.1:4567`, `http://…`, `ws://…`, or a function that says so.
   * The function is asked at every new connection: the port changes with each start of the daemon.
   */
  endpoint: string | (() => string | Promise<string>);
  /** Default: the global one. */
  WebSocket?: new (url: string, protocols?: string[]) => WebSocket;
  /** How long a request waits for its answer. Default 30,000. */
  requestTimeoutMs?: number;
  /** Default 10,000. */
  connectTimeoutMs?: number;
  /** Called when the user must approve this origin: `pedelec-core origins approve <origin>`. */
  onApprovalRequired?: (about: { origin?: string }) => void;
}

export interface Provider {
  name: string;
  code: string;
  available: boolean;
  isDefault: boolean;
  error: string | null;
}

export interface ToolDefinition<TName extends string = string> {
  readonly name: TName;
  readonly description: string;
  readonly argsSchema: object;
  /** Default 60,000. */
  readonly timeoutMs?: number;
  /** Stays in the page. A handler that `onTool(name, …)` registers goes before it. */
  readonly handler?: ToolSpecificHandler<any, any>;
}

export interface CreateSessionOptions<TTools extends readonly ToolDefinition[] = readonly ToolDefinition[]> {
  /** Code of a provider. Default: the one of the user's settings, else `DEFAULT_PROVIDER_NOT_SET`. */
  provider?: string;
  effortLevel?: EffortLevel;
  skills?: { guidance?: string; tools?: TTools };
  /** An absolute folder that the application owns. Default: one that the daemon makes and removes. */
  workspace?: { path: string };
  /** End the session when its last page has been gone for ten seconds. Default true. */
  autoEndOnDisconnect?: boolean;
}

export interface ResumeSessionOptions {
  /**
   * Number of the last event that the page has seen (`session.lastEventSeq`). Completed messages since then
   * go to `onChat`. Default: where a handle of this client stood when it lost its connection, else now.
   */
  afterSeq?: number;
}

export declare class Pedelec {
  constructor(options: PedelecOptions);
  ping(): Promise<{ connected: true; version: string; processId: number; instanceId?: string }>;
  /** Resolves when pages of this origin may act. Errors: `APPROVAL_REJECTED`, `APPROVAL_TIMEOUT`. */
  requestApproval(): Promise<void>;
  listProviders(): Promise<Provider[]>;
  getSettings(): Promise<{ defaultProvider: string | null }>;
  pickWorkspaceFolder(): Promise<{ path: string | null; isEmptyFolder?: boolean; hasWorkspaceConfig?: boolean }>;
  createSession<const TTools extends readonly ToolDefinition[] = readonly ToolDefinition[]>(
    options?: CreateSessionOptions<TTools>,
  ): Promise<PedelecSession<TTools[number]["name"]>>;
  resumeSession<TToolName extends string = string>(
    sessionId: string,
    options?: ResumeSessionOptions,
  ): Promise<PedelecSession<TToolName>>;
  /** Gives the connection up; all handles are detached. */
  close(): void;
}

export interface PedelecSessionUsage {
  /** Cumulative; undefined until the provider reports a valid total. */
  readonly totalTokens: number | undefined;
}

export interface Asset {
  name: string;
  path: AssetPath;
  sizeBytes: number;
  /** Unix milliseconds. */
  modifiedAt: number;
}

export interface TransferOptions {
  onProgress?: (loadedBytes: number, totalBytes: number) => void;
}

export interface PedelecEventContext {
  sessionId: string;
  provider: string;
  effortLevel?: EffortLevel;
  sessionCreatedAt: number;
  eventReceivedAt?: number;
  eventEmittedAt: number;
  turnId?: string;
  turnStartedAt?: number;
  turnKind?: "user" | "prepare";
  source: "core" | "sdk";
}

export type ChatEventContext = PedelecEventContext & { type: "chat_message" };
export type ChatDeltaEventContext = PedelecEventContext & { type: "chat_delta" };
export type ToolCallContext = PedelecEventContext & { type: "tool_call"; toolRequestId: string; tool: string };
export type ErrorEventContext = PedelecEventContext & { type: "error" | "sdk_error" };
export type EndedEventContext = PedelecEventContext & { type: "ended" | "sdk_ended" };
export type StatusEventContext = PedelecEventContext & {
  type: "status_changed" | "sdk_status_changed";
  status: PedelecSessionStatus;
  previousStatus: PedelecSessionStatus;
};

export type ToolSpecificHandler<TArgs = unknown, TResult = unknown> = (
  args: TArgs,
  ctx: ToolCallContext,
) => TResult | Promise<TResult>;

/** Made by `Pedelec.createSession` and `Pedelec.resumeSession` only. */
export declare class PedelecSession<TToolName extends string = string> {
  private constructor();
  readonly sessionId: string;
  /** Empty on a handle of `resumeSession`. */
  readonly provider: string;
  /** Undefined on a handle of `resumeSession`. */
  readonly effortLevel?: EffortLevel;
  /** When this handle was made, in Unix milliseconds. */
  readonly sessionCreatedAt: number;
  readonly usage: PedelecSessionUsage;
  /** Number of the last event that this handle has seen; to be kept for `resumeSession`. */
  readonly lastEventSeq: number;
  /** False once the connection that carried this handle is lost. */
  readonly attached: boolean;

  getStatus(): PedelecSessionStatus;
  prepare(): Promise<void>;
  sendText(text: string): Promise<void>;
  /** Stops the running turn: its promise rejects `OPERATION_CANCELLED`. False: there was nothing to stop. */
  cancel(): Promise<boolean>;
  end(): Promise<void>;
  resume(): Promise<void>;

  uploadAsset(file: File, targetPath?: AssetPath, options?: TransferOptions): Promise<AssetPath>;
  listAssets(): Promise<Asset[]>;
  readAsset(path: AssetPath, type: "text", options?: TransferOptions): Promise<string>;
  readAsset<T = JsonValue>(path: AssetPath, type: "json", options?: TransferOptions): Promise<T>;
  readAsset(path: AssetPath, type: "file", options?: TransferOptions): Promise<File>;
  readAsset(path: AssetPath, type: "blob", options?: TransferOptions): Promise<Blob>;

  onChat(handler: (text: string, ctx: ChatEventContext) => void): () => void;
  onChatDelta(handler: (text: string, ctx: ChatDeltaEventContext) => void): () => void;
  onTool(handler: (tool: TToolName, args: unknown, ctx: ToolCallContext) => unknown | Promise<unknown>): () => void;
  onTool<TArgs = unknown, TResult = unknown>(toolName: TToolName, handler: ToolSpecificHandler<TArgs, TResult>): () => void;
  onError(handler: (error: PedelecError, ctx: ErrorEventContext) => void): () => void;
  onStatus(handler: (status: PedelecSessionStatus, ctx: StatusEventContext) => void): () => void;
  onEnded(handler: (ctx: EndedEventContext) => void): () => void;
}
