// Random lives of a session: turns of this page and of others, calls, failures,
// cancels, ends, resumes, lost connections. However they mix, the handle ends up
// where the daemon is, every promise is settled, and every message is told once.
// PEDELEC_SEED repeats one.

import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeCore, completed, delta, ended, idle, message, settled, status, watch } from "./fake.js";

const rounds = 60;
const steps = 30;

function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const seen = { idle: "idle", running: "running", waitingToolResult: "waiting_tool_result", ended: "ended", error: "error" };

// Life is the daemon's side of one session.
class Life {
  status = "idle";
  operation = null; // {id, kind}
  pending = null; // id of a call
  journal = []; // what a cursor can replay
  messages = 0;
  calls = 0;

  constructor(core) {
    this.core = core;
    const admit = (kind) => ({ operationId }) => {
      if (this.status === "ended") throw { code: "THREAD_ENDED" };
      if (this.operation) throw { code: "THREAD_BUSY" };
      if (this.status === "error" && kind === "user") throw { code: "PROVIDER_COMMAND_FAILED" };
      this.begin(operationId, kind);
      return { threadId: "t1", operationId };
    };
    core.answer("send_text", admit("user"));
    core.answer("prepare_thread", admit("prepare"));
    core.answer("end_thread", () => {
      this.end();
      return {};
    });
    core.answer("resume_thread", () => {
      if (this.status === "ended") {
        this.status = "idle";
        this.say(status("idle"));
      }
      return { snapshot: this.snapshot() };
    });
    core.answer("submit_tool_result", ({ requestId }) => {
      if (requestId !== this.pending) throw { code: "PENDING_TOOL_REQUEST_NOT_FOUND" };
      this.answered();
      return {};
    });
    core.answer("subscribe_thread", ({ afterSeq }) => {
      const snapshot = this.snapshot();
      this.subscribed = true;
      const missed = this.journal.filter(({ seq }) => afterSeq !== undefined && seq > afterSeq);
      queueMicrotask(() => queueMicrotask(() => this.core.say(...missed)));
      return { subscribed: true, snapshot };
    });
    core.answer("unsubscribe_thread", () => {
      this.subscribed = false;
      return {};
    });
  }

  snapshot() {
    return idle({
      status: this.status, latestSeq: this.core.seq,
      ...(this.operation && { activeOperation: { operationId: this.operation.id, operationKind: this.operation.kind, startedAt: "2026-01-01T00:00:00Z" } }),
      ...(this.pending && { pendingToolRequest: { requestId: this.pending, threadId: "t1", operationId: this.operation.id, toolName: "paint", args: {}, createdAt: "", timeoutMs: 1 } }),
    });
  }

  say(...events) {
    for (const event of events) {
      const told = { ...event, seq: ++this.core.seq };
      if (event.type !== "assistant_delta") this.journal.push(told);
      const socket = this.core.sockets.at(-1);
      if (this.subscribed && !socket.closed) this.core.say(told);
    }
  }

  begin(id, kind) {
    this.operation = { id, kind };
    this.status = "running";
    this.say(status("running", id));
  }

  finish(outcome) {
    const { id, kind } = this.operation;
    this.operation = this.pending = null;
    this.status = outcome === "fail" && kind === "user" ? "error" : "idle";
    const error = { code: outcome === "cancel" ? "OPERATION_CANCELLED" : "PROVIDER_REQUEST_FAILED", message: "" };
    if (outcome === "cancel") this.say(completed(id, { kind, error }), status("idle"));
    else if (outcome === "fail") this.say({ type: "error", source: "core", operationId: id, error }, status(this.status, id), completed(id, { kind, error }));
    else this.say(status("idle", id), completed(id, { kind }));
  }

  speak() {
    const text = `message ${++this.messages}`;
    this.say(delta(this.operation.id, text), message(this.operation.id, text));
    return text;
  }

  call() {
    this.pending = `r${++this.calls}`;
    this.status = "waitingToolResult";
    this.say(status("waitingToolResult", this.operation.id), { type: "tool_call", operationId: this.operation.id, requestId: this.pending, toolName: "paint", args: {} });
  }

  answered() {
    const { id } = this.operation;
    const requestId = this.pending;
    this.pending = null;
    this.status = "running";
    this.say(status("running", id), { type: "tool_result", operationId: id, requestId, toolName: "paint", result: null });
  }

  end() {
    if (this.status === "ended") return;
    const operation = this.operation;
    this.operation = this.pending = null;
    this.status = "ended";
    this.say(ended, ...(operation ? [completed(operation.id, { kind: operation.kind, error: { code: "THREAD_ENDED", message: "" } })] : []), status("ended"));
  }
}

async function live(seed) {
  const random = generator(seed);
  const pick = (list) => list[Math.floor(random() * list.length)];
  const core = new FakeCore();
  const life = new Life(core);
  const client = core.client();
  let session = await client.resumeSession("t1");
  const told = [];
  const open = new Set();
  const listen = () => {
    session.onChat((text) => told.push(text));
    session.onTool("paint", () => null);
    return watch(session);
  };
  let heard = listen();
  const said = [];
  const follow = (promise) => {
    open.add(promise);
    promise.then(() => open.delete(promise), () => open.delete(promise));
  };
  const trace = [];
  for (let i = 0; i < steps; i++) {
    const choices = ["send", "prepare", "end", "resume", "drop", "rest"];
    if (life.operation) {
      choices.push("finish", "finish", "fail", "cancel");
      if (life.operation.kind === "user" && !life.pending) choices.push("speak", "speak", "speak", "call");
      if (life.pending) choices.push("timeout");
    } else if (life.status === "idle") choices.push("other", "other");
    const choice = pick(choices);
    trace.push(choice);
    if (choice === "send") follow(session.sendText("x"));
    if (choice === "prepare") follow(session.prepare());
    if (choice === "end" && random() < 0.3) follow(session.end());
    if (choice === "resume") follow(session.resume());
    if (choice === "drop") {
      life.subscribed = false;
      core.drop();
      assert.equal(session.attached, false);
      if (life.operation && random() < 0.5) {
        if (life.operation.kind === "user") said.push(life.speak());
        life.finish("ok");
      }
      session = await client.resumeSession("t1");
      heard = listen();
    }
    if (choice === "finish") life.finish("ok");
    if (choice === "fail" || choice === "cancel") life.finish(choice);
    if (choice === "speak") said.push(life.speak());
    if (choice === "call") life.call();
    if (choice === "timeout") life.answered();
    if (choice === "other") life.begin(`other${i}`, "user");
    if (random() < 0.6) await settled();
  }
  await settled();
  if (life.operation) life.finish("ok");
  for (let i = 0; i < 5; i++) await settled();
  if (life.operation) life.finish("ok"); // one that was admitted meanwhile
  await settled();
  const where = `seed ${seed}: ${trace.join(" ")}`;
  const now = heard.status.at(-1)?.[0] ?? session.getStatus();
  assert.equal(session.getStatus(), seen[life.status], where);
  assert.equal(now, session.getStatus(), where);
  assert.equal(open.size, 0, where);
  assert.deepEqual(told, said, where);
  for (const [i, [value, ctx]] of heard.status.entries()) {
    assert.notEqual(value, ctx.previousStatus, where);
    if (i > 0) assert.equal(ctx.previousStatus, heard.status[i - 1][0], where);
  }
}

test("random lives end where the daemon is", async () => {
  const given = Number(process.env.PEDELEC_SEED);
  const seeds = given ? [given] : Array.from({ length: rounds }, (_, i) => i + 1);
  for (const seed of seeds) await live(seed);
});
