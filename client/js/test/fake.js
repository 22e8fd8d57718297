// A daemon in the process of the tests: it answers as it is told, and says what
// it is told to say.

import { Pedelec } from "../pedelec.js";

export const idle = (more) => ({ threadId: "t1", status: "idle", latestSeq: 2, ...more });

export class FakeCore {
  requests = []; // envelopes, in order
  sockets = [];
  seq = 2;
  snapshot = idle();
  #answers = new Map();
  #waiting = []; // {type, resolve}

  constructor() {
    this.answer("ping", () => ({ connected: true, version: "1.0.0", processId: 1 }));
    this.answer("get_settings", () => ({ defaultProvider: "codex" }));
    this.answer("create_thread", () => ({ threadId: "t1" }));
    this.answer("subscribe_thread", () => ({ subscribed: true, snapshot: this.snapshot }));
    for (const type of ["send_text", "prepare_thread"]) {
      this.answer(type, ({ threadId, operationId }) => ({ threadId, operationId }));
    }
    for (const type of ["end_thread", "submit_tool_result", "unsubscribe_thread"]) this.answer(type, () => ({}));
  }

  // answer says how a type is answered: a result, a promise of one, or a throw of
  // {code, message?, details?}.
  answer(type, run) {
    this.#answers.set(type, run);
  }

  refuse(type, code, details) {
    this.answer(type, () => {
      throw { code, message: `refused ${code}`, details };
    });
  }

  // hold leaves a type unanswered until the function that it returns is called.
  hold(type) {
    const run = this.#answers.get(type);
    let release;
    const gate = new Promise((resolve) => (release = resolve));
    this.answer(type, (payload) => gate.then(() => run(payload)));
    return release;
  }

  of(type) {
    return this.requests.filter((request) => request.type === type).map((request) => request.payload);
  }

  // next resolves with the payload of the next request of a type that was not
  // seen yet.
  asked(type, count = 1) {
    const seen = this.of(type);
    if (seen.length >= count) return Promise.resolve(seen[count - 1]);
    return new Promise((resolve) => this.#waiting.push({ type, count, resolve }));
  }

  get WebSocket() {
    const core = this;
    return class {
      constructor(url, protocols) {
        Object.assign(this, { url, protocols });
        core.sockets.push(this);
        setImmediate(() => (core.down ? this.onclose?.({ code: 1006 }) : this.onopen?.({})));
      }

      send(text) {
        void core.#serve(this, JSON.parse(text));
      }

      close(code) {
        this.closed = true;
        setImmediate(() => this.onclose?.({ code }));
      }
    };
  }

  async #serve(socket, request) {
    this.requests.push(request);
    for (const waiting of this.#waiting) {
      if (waiting.type === request.type && this.of(request.type).length >= waiting.count) waiting.resolve(request.payload);
    }
    let answer;
    try {
      const run = this.#answers.get(request.type);
      if (!run) throw { code: "IPC_UNAVAILABLE", message: "unknown type", details: { type: request.type } };
      answer = { requestId: request.requestId, ok: true, result: await run(request.payload, request) };
    } catch (error) {
      if (error instanceof Error) throw error;
      answer = { requestId: request.requestId, ok: false, error: { message: "no", ...error } };
    }
    if (!socket.closed) socket.onmessage({ data: JSON.stringify(answer) });
  }

  // say sends events, each with the next number unless it has one.
  say(...events) {
    for (const event of events) {
      const seq = event.seq ?? ++this.seq;
      this.sockets.at(-1).onmessage({ data: JSON.stringify({ type: "thread_event", event: { threadId: "t1", ...event, seq } }) });
    }
  }

  drop() {
    const socket = this.sockets.at(-1);
    socket.closed = true;
    socket.onclose({ code: 1006 });
  }

  client(options) {
    return new Pedelec({ endpoint: "127.0.0.1:1", WebSocket: this.WebSocket, ...options });
  }
}

// Groups of events as the daemon sends them.
export const status = (status, operationId) => ({ type: "status_changed", status, ...(operationId && { operationId }) });
export const completed = (operationId, { kind = "user", error } = {}) => ({
  type: "operation_completed", operationId, operationKind: kind, success: !error, ...(error && { error }),
});
export const delta = (operationId, text) => ({ type: "assistant_delta", operationId, text });
export const message = (operationId, text, more) => ({ type: "assistant_message", operationId, text, ...more });
export const call = (operationId, requestId, toolName, args = {}) => ({ type: "tool_call", operationId, requestId, toolName, args });
export const succeed = (operationId, kind) => [status("idle", operationId), completed(operationId, { kind })];
export const ended = { type: "ended" };

// settled resolves when all that is on its way has been taken in.
export const settled = () => new Promise((resolve) => setTimeout(() => setImmediate(resolve), 0));

// began starts a session that listens to everything, in `seen`.
export async function began(core, options, clientOptions) {
  const client = core.client(clientOptions);
  const session = await client.createSession({ provider: "codex", ...options });
  await settled();
  return { client, session, seen: watch(session) };
}

export function watch(session) {
  const seen = { chat: [], delta: [], status: [], error: [], ended: [] };
  session.onChat((text, ctx) => seen.chat.push([text, ctx]));
  session.onChatDelta((text, ctx) => seen.delta.push([text, ctx]));
  session.onStatus((value, ctx) => seen.status.push([value, ctx]));
  session.onError((error, ctx) => seen.error.push([error, ctx]));
  session.onEnded((ctx) => seen.ended.push(ctx));
  return seen;
}

// turn begins a user turn and gives its promise and its id.
export async function turn(core, session, text = "hello") {
  const count = core.of("send_text").length + 1;
  const done = session.sendText(text);
  done.catch(() => {});
  const { operationId } = await core.asked("send_text", count);
  await settled();
  core.say(status("running", operationId));
  return { done, op: operationId };
}

// preparing begins a preparation and gives its promise and its id.
export async function preparing(core, session) {
  const done = session.prepare();
  done.catch(() => {});
  const { operationId: op } = await core.asked("prepare_thread");
  await settled();
  core.say(status("running", op));
  return { done, op };
}
