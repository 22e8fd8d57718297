// The handle itself: what it knows, prepare, send, end, resume.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PedelecError, PedelecSession } from "../pedelec.js";
import { FakeCore, began, call, completed, delta, ended, idle, message, preparing, settled, status, succeed, turn, watch } from "./fake.js";

const code = (expected) => (error) => error instanceof PedelecError && error.code === expected;

test("a session comes from createSession and is a PedelecSession", async () => {
  const { session } = await began(new FakeCore());
  assert.ok(session instanceof PedelecSession);
});

test("sessionId, provider, effortLevel and sessionCreatedAt are read-only", async () => {
  const before = Date.now();
  const { session } = await began(new FakeCore(), { effortLevel: "high" });
  assert.equal(session.sessionId, "t1");
  assert.equal(session.provider, "codex");
  assert.equal(session.effortLevel, "high");
  assert.ok(session.sessionCreatedAt >= before && session.sessionCreatedAt <= Date.now());
  for (const name of ["sessionId", "provider", "effortLevel", "sessionCreatedAt", "usage"]) {
    assert.throws(() => (session[name] = "other"), TypeError);
  }
});

test("the effort level of a session that named none is default", async () => {
  const { session } = await began(new FakeCore());
  assert.equal(session.effortLevel, "default");
});

test("a fresh resumed handle knows neither provider nor effort level", async () => {
  const session = await new FakeCore().client().resumeSession("t1");
  assert.equal(session.provider, "");
  assert.equal(session.effortLevel, undefined);
});

test("sessionCreatedAt is when the handle was made, not the session", async () => {
  const before = Date.now();
  const session = await new FakeCore().client().resumeSession("t1");
  assert.ok(session.sessionCreatedAt >= before);
});

// usage

test("usage.totalTokens is undefined until a provider reports a valid total", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  assert.equal(session.usage.totalTokens, undefined);
  for (const totalTokens of [-1, 1.5, "7", null]) core.say({ type: "usage_updated", totalTokens });
  assert.equal(session.usage.totalTokens, undefined);
  core.say({ type: "usage_updated", totalTokens: 7 });
  assert.equal(session.usage.totalTokens, 7);
});

test("usage only grows as long as a handle lives", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  for (const totalTokens of [10, 4, 10, 12]) core.say({ type: "usage_updated", totalTokens });
  assert.equal(session.usage.totalTokens, 12);
});

test("a usage update calls no chat, status or error handler", async () => {
  const core = new FakeCore();
  const { seen } = await began(core);
  core.say({ type: "usage_updated", totalTokens: 7 });
  assert.deepEqual(seen, { chat: [], delta: [], status: [], error: [], ended: [] });
});

test("resumeSession takes usage from the snapshot, and a snapshot without it leaves it undefined", async () => {
  const core = new FakeCore();
  core.snapshot = idle({ usage: { totalTokens: 42 } });
  assert.equal((await core.client().resumeSession("t1")).usage.totalTokens, 42);
  core.snapshot = idle();
  assert.equal((await core.client().resumeSession("t1")).usage.totalTokens, undefined);
});

test("resume of the same handle keeps usage, also when the snapshot has none", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  core.say({ type: "usage_updated", totalTokens: 9 });
  await session.end();
  core.answer("resume_thread", () => ({ snapshot: idle({ latestSeq: 20 }) }));
  await session.resume();
  assert.equal(session.usage.totalTokens, 9);
});

// prepare

test("prepare resolves when the daemon has verified the acknowledgement", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  const { done, op } = await preparing(core, session);
  assert.equal(session.getStatus(), "running");
  core.say(...succeed(op, "prepare"));
  await done;
  assert.equal(session.getStatus(), "idle");
});

test("prepare is idempotent after a success", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  const { done, op } = await preparing(core, session);
  core.say(...succeed(op, "prepare"));
  await done;
  await session.prepare();
  assert.equal(core.of("prepare_thread").length, 1);
});

test("concurrent prepares share one promise", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  const first = session.prepare();
  assert.equal(session.prepare(), first);
  const { operationId } = await core.asked("prepare_thread");
  core.say(...succeed(operationId, "prepare"));
  await first;
  assert.equal(core.of("prepare_thread").length, 1);
});

test("prepare during a user turn rejects SESSION_BUSY", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  await turn(core, session);
  await assert.rejects(session.prepare(), code("SESSION_BUSY"));
});

test("prepare after the end rejects SESSION_ENDED", async () => {
  const { session } = await began(new FakeCore());
  await session.end();
  await assert.rejects(session.prepare(), code("SESSION_ENDED"));
});

test("what is said in a preparation reaches neither onChat nor onChatDelta", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  const { op } = await preparing(core, session);
  core.say(delta(op, "PEDELEC_"), message(op, "PEDELEC_PREPARED"));
  assert.deepEqual([seen.chat, seen.delta], [[], []]);
});

test("a preparation still tells of status and errors", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  const { done, op } = await preparing(core, session);
  const error = { code: "PREPARE_ACK_INVALID", message: "other words" };
  core.say({ type: "error", source: "core", operationId: op, error }, status("idle", op), completed(op, { kind: "prepare", error }));
  await assert.rejects(done, code("PREPARE_ACK_INVALID"));
  assert.deepEqual(seen.status.map(([value]) => value), ["running", "idle"]);
  assert.equal(seen.error[0][0].code, "PREPARE_ACK_INVALID");
});

test("a failed prepare without a code rejects PREPARE_FAILED, and sendText works all the same", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  const { done, op } = await preparing(core, session);
  core.say(status("idle", op), { ...completed(op, { kind: "prepare" }), success: false });
  await assert.rejects(done, code("PREPARE_FAILED"));
  const { done: sent, op: next } = await turn(core, session);
  core.say(...succeed(next));
  await sent;
});

test("prepare is no condition of sendText", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  const { done, op } = await turn(core, session);
  core.say(...succeed(op));
  await done;
  assert.equal(core.of("prepare_thread").length, 0);
});

// sendText

test("sendText resolves at the matching completion, not at idle", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  const { done, op } = await turn(core, session);
  let resolved = false;
  done.then(() => (resolved = true));
  core.say(status("idle", op));
  await settled();
  assert.deepEqual([session.getStatus(), resolved], ["idle", false]);
  core.say(completed("operation_of_another"));
  await settled();
  assert.equal(resolved, false);
  core.say(completed(op));
  await done;
});

test("sendText resolves when the completion comes before the answer to the request", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  const release = core.hold("send_text");
  const done = session.sendText("hi");
  const { operationId } = await core.asked("send_text");
  core.say(status("running", operationId), ...succeed(operationId));
  await done;
  release();
  await settled();
  assert.equal(session.getStatus(), "idle");
});

test("sendText rejects when the turn fails, with the code of the failure", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  const { done, op } = await turn(core, session);
  const error = { code: "PROVIDER_REQUEST_FAILED", message: "no", details: { why: "x" } };
  core.say({ type: "error", source: "provider", provider: "codex", operationId: op, error }, status("error", op), completed(op, { error }));
  await assert.rejects(done, (e) => code("PROVIDER_REQUEST_FAILED")(e) && e.details.why === "x" && e.details.operationId === op);
  assert.equal(session.getStatus(), "error");
  assert.equal(seen.error.length, 1);
});

test("a failed turn without a code rejects SEND_TEXT_FAILED", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  const { done, op } = await turn(core, session);
  core.say(status("error", op), { ...completed(op), success: false });
  await assert.rejects(done, code("SEND_TEXT_FAILED"));
});

test("sendText rejects SESSION_ENDED when the session ends in the turn", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  const { done, op } = await turn(core, session);
  core.say(status("stopping", op), ended, completed(op, { error: { code: "THREAD_ENDED", message: "" } }), status("ended"));
  await assert.rejects(done, code("SESSION_ENDED"));
});

test("sendText during a turn rejects SESSION_BUSY and asks nothing of the daemon", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  await turn(core, session);
  await assert.rejects(session.sendText("more"), code("SESSION_BUSY"));
  assert.equal(core.of("send_text").length, 1);
});

test("sendText is not trimmed and may be empty", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  for (const text of ["", "  two\n "]) {
    const { done, op } = await turn(core, session, text);
    core.say(...succeed(op));
    await done;
  }
  assert.deepEqual(core.of("send_text").map(({ message }) => message), ["", "  two\n "]);
});

test("sendText in status error rejects SESSION_ERROR", async () => {
  const core = new FakeCore();
  core.snapshot = idle({ status: "error" });
  const session = await core.client().resumeSession("t1");
  await assert.rejects(session.sendText("hi"), code("SESSION_ERROR"));
});

test("two pages may race: the daemon's THREAD_BUSY is SESSION_BUSY", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  core.refuse("send_text", "THREAD_BUSY", { threadId: "t1" });
  await assert.rejects(session.sendText("hi"), (e) => code("SESSION_BUSY")(e) && e.details.coreCode === "THREAD_BUSY");
  assert.equal(session.getStatus(), "idle");
  assert.deepEqual(seen.error, []);
});

test("a refused send leaves the session as the daemon last told it", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  const release = core.hold("send_text");
  core.refuse("send_text", "THREAD_BUSY");
  const done = session.sendText("mine");
  core.say(status("running", "operation_other"));
  await assert.rejects(done, code("SESSION_BUSY"));
  assert.equal(session.getStatus(), "running");
  core.say(message("operation_other", "theirs"), ...succeed("operation_other"));
  assert.equal(seen.chat[0][0], "theirs");
  assert.equal(session.getStatus(), "idle");
  for (let i = 0; i < 2; i++) { // each is asked of the daemon anew
    await assert.rejects(session.sendText("mine"), (e) => code("SESSION_BUSY")(e) && e.details.coreCode === "THREAD_BUSY");
    assert.equal(session.getStatus(), "idle");
  }
  release();
});

test("a text is never sent twice", async () => {
  const core = new FakeCore();
  const { client, session } = await began(core);
  const { done } = await turn(core, session);
  core.drop();
  await assert.rejects(done, code("SDK_TRANSPORT_DISCONNECTED"));
  await client.resumeSession("t1");
  assert.equal(core.of("send_text").length, 1);
});

// onChat, onChatDelta

test("onChat gets complete messages, onChatDelta their pieces", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  const { op } = await turn(core, session);
  core.say(delta(op, "Hel"), delta(op, "lo"), message(op, "Hello"), message(op, "World"));
  assert.deepEqual(seen.delta.map(([text]) => text), ["Hel", "lo"]);
  assert.deepEqual(seen.chat.map(([text]) => text), ["Hello", "World"]);
});

test("each text of onChat is one logical message, also when it came in parts", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  const { op } = await turn(core, session);
  core.say(message(op, "one ", { part: { index: 0, count: 2 } }), message(op, "message", { part: { index: 1, count: 2 } }));
  assert.deepEqual(seen.chat.map(([text]) => text), ["one message"]);
});

test("no pieces are made up for a complete message", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  const { op } = await turn(core, session);
  core.say(message(op, "whole"));
  assert.deepEqual(seen.delta, []);
});

test("every registration returns a function that takes the handler away", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  const calls = [];
  const offs = [
    session.onChat(() => calls.push("chat")), session.onChatDelta(() => calls.push("delta")),
    session.onStatus(() => calls.push("status")), session.onError(() => calls.push("error")),
    session.onEnded(() => calls.push("ended")), session.onTool(() => calls.push("tool")),
  ];
  for (const off of offs) assert.equal(off(), undefined);
  const { op } = await turn(core, session);
  core.say(delta(op, "a"), message(op, "a"), { type: "error", source: "core", operationId: op, error: { code: "X" } });
  core.say(status("waitingToolResult", op), call(op, "r1", "paint"));
  core.say(ended);
  await settled();
  assert.deepEqual(calls, []);
});

test("taking a handler away cancels no running turn", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  const off = session.onChat(() => {});
  const { done, op } = await turn(core, session);
  off();
  core.say(...succeed(op));
  await done;
});

test("a handler that is registered twice is called once", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  const calls = [];
  const handler = (text) => calls.push(text);
  session.onChat(handler);
  session.onChat(handler);
  const { op } = await turn(core, session);
  core.say(message(op, "a"));
  assert.deepEqual(calls, ["a"]);
});

test("a handler that throws harms no other one", async (t) => {
  t.mock.method(console, "error", () => {});
  const core = new FakeCore();
  const { session } = await began(core);
  session.onChat(() => {
    throw new Error("mine");
  });
  const seen = watch(session);
  const { op } = await turn(core, session);
  core.say(message(op, "a"));
  assert.equal(seen.chat.length, 1);
});

// end

test("end asks the daemon, marks the handle ended and calls onEnded once", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  await session.end();
  assert.equal(session.getStatus(), "ended");
  assert.equal(core.of("end_thread").length, 1);
  assert.deepEqual(seen.ended.map(({ type, source }) => [type, source]), [["sdk_ended", "sdk"]]);
});

test("end calls onEnded once when the daemon's events come first", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  core.answer("end_thread", () => {
    core.say(ended, status("ended"));
    return {};
  });
  await session.end();
  assert.deepEqual(seen.ended.map(({ type }) => type), ["ended"]);
  assert.deepEqual(seen.status.map(([value]) => value), ["ended"]);
});

test("end rejects the pending turn with SESSION_ENDED", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  const { done } = await turn(core, session);
  await session.end();
  await assert.rejects(done, code("SESSION_ENDED"));
});

test("end rejects the pending preparation with SESSION_ENDED", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  const { done } = await preparing(core, session);
  await session.end();
  await assert.rejects(done, code("SESSION_ENDED"));
});

test("end takes the session out of the client's registry", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  await session.end();
  await core.asked("unsubscribe_thread");
  core.say(status("idle"));
  assert.equal(session.getStatus(), "ended");
  assert.equal(seen.status.length, 1);
});

test("sendText and prepare reject after end until the handle is resumed", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  await session.end();
  await assert.rejects(session.sendText("x"), code("SESSION_ENDED"));
  await assert.rejects(session.prepare(), code("SESSION_ENDED"));
  core.answer("resume_thread", () => ({ snapshot: idle({ latestSeq: 9 }) }));
  await session.resume();
  core.seq = 9;
  const { done, op } = await turn(core, session);
  core.say(...succeed(op));
  await done;
});

test("end of an ended handle resolves at once and asks nothing", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  await session.end();
  await session.end();
  assert.equal(core.of("end_thread").length, 1);
});

test("an end that fails tells an SDK error, rejects, and leaves the session as it is", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  core.refuse("end_thread", "STORAGE_FULL");
  await assert.rejects(session.end(), code("STORAGE_FULL"));
  assert.equal(session.getStatus(), "idle");
  assert.deepEqual(seen.error.map(([error, ctx]) => [error.code, ctx.type, ctx.source]), [["STORAGE_FULL", "sdk_error", "sdk"]]);
  assert.deepEqual(seen.ended, []);
});

// cancel goes beyond the documents.

test("cancel stops the turn, whose promise rejects OPERATION_CANCELLED", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  const { done, op } = await turn(core, session);
  core.answer("cancel_operation", ({ operationId }) => ({ threadId: "t1", operationId, cancelled: true }));
  assert.equal(await session.cancel(), true);
  core.say(completed(op, { error: { code: "OPERATION_CANCELLED", message: "" } }), status("idle"));
  await assert.rejects(done, code("OPERATION_CANCELLED"));
  assert.equal(session.getStatus(), "idle");
  assert.equal(await session.cancel(), false);
});
