// Statuses, their order and where they come from; errors; contexts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeCore, began, call, completed, ended, message, settled, status, succeed, turn } from "./fake.js";

const words = (seen) => seen.status.map(([value]) => value);

test("a turn without a tool goes idle, running, idle", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  const { op } = await turn(core, session);
  core.say(...succeed(op));
  assert.deepEqual(words(seen), ["running", "idle"]);
});

test("a turn with a tool goes idle, running, waiting_tool_result, running, idle", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  session.onTool("paint", () => 1);
  const { op } = await turn(core, session);
  core.say(status("waitingToolResult", op), call(op, "r1", "paint"));
  await core.asked("submit_tool_result");
  core.say(status("running", op), { type: "tool_result", operationId: op, requestId: "r1", toolName: "paint", result: 1 }, ...succeed(op));
  assert.deepEqual(words(seen), ["running", "waiting_tool_result", "running", "idle"]);
});

for (const [from, to] of [["running", "error"], ["running", "ended"], ["waiting_tool_result", "error"], ["waiting_tool_result", "ended"]]) {
  test(`${from} may go to ${to}`, async () => {
    const core = new FakeCore();
    const { session } = await began(core);
    const { op } = await turn(core, session);
    if (from === "waiting_tool_result") core.say(status("waitingToolResult", op));
    assert.equal(session.getStatus(), from);
    core.say(...(to === "ended" ? [ended] : [status("error", op)]));
    assert.equal(session.getStatus(), to);
  });
}

test("onStatus is not called at its registration", async () => {
  const { seen } = await began(new FakeCore());
  await settled();
  assert.deepEqual(seen.status, []);
});

test("onStatus is called only when the value changes", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  const { op } = await turn(core, session);
  core.say(status("running", op), status("starting", op), status("stopping", op));
  assert.deepEqual(words(seen), ["running"]);
});

test("sendText sets running before the daemon answers, as the SDK's change", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  void session.sendText("x").catch(() => {});
  assert.equal(session.getStatus(), "running");
  const [, ctx] = seen.status[0];
  assert.deepEqual([ctx.source, ctx.type, ctx.previousStatus], ["sdk", "sdk_status_changed", "idle"]);
  assert.equal("eventReceivedAt" in ctx, false);
});

test("prepare sets running before the daemon answers", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  void session.prepare();
  assert.deepEqual([session.getStatus(), seen.status[0][1].turnKind], ["running", "prepare"]);
});

test("a tool call sets waiting_tool_result, also when the daemon did not say so", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  const { op } = await turn(core, session);
  core.say(call(op, "r1", "paint"));
  assert.deepEqual([session.getStatus(), seen.status.at(-1)[1].source], ["waiting_tool_result", "sdk"]);
});

test("a change that the daemon tells has source core and type status_changed", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  const { op } = await turn(core, session);
  core.say(status("idle", op));
  const [, ctx] = seen.status.at(-1);
  assert.deepEqual([ctx.source, ctx.type, ctx.previousStatus, ctx.turnId], ["core", "status_changed", "running", op]);
  assert.ok(ctx.eventReceivedAt <= ctx.eventEmittedAt);
});

test("a core error goes to onError with its code, message and details, and changes no status", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  const { op } = await turn(core, session);
  const error = { code: "PROVIDER_SESSION_LOST", message: "a new one", details: { a: 1 } };
  core.say({ type: "error", source: "core", operationId: op, error });
  const [told, ctx] = seen.error[0];
  assert.deepEqual([told.code, told.message, told.details], [error.code, error.message, error.details]);
  assert.deepEqual([ctx.type, ctx.source, ctx.sessionId], ["error", "core", "t1"]);
  assert.equal(session.getStatus(), "running");
});

test("a core error rejects nothing: the completion does", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  const { done, op } = await turn(core, session);
  core.say({ type: "error", source: "core", operationId: op, error: { code: "X", message: "" } });
  core.say(...succeed(op));
  await done;
});

test("a chat context has all fields of the turn", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core, { effortLevel: "low" });
  const before = Date.now();
  const { op } = await turn(core, session);
  core.say(message(op, "a"));
  const [, ctx] = seen.chat[0];
  assert.deepEqual(Object.keys(ctx).sort(), [
    "effortLevel", "eventEmittedAt", "eventReceivedAt", "provider", "sessionCreatedAt", "sessionId", "source",
    "turnId", "turnKind", "turnStartedAt", "type",
  ]);
  assert.deepEqual([ctx.sessionId, ctx.provider, ctx.effortLevel, ctx.turnId, ctx.turnKind, ctx.source], ["t1", "codex", "low", op, "user", "core"]);
  assert.ok(ctx.turnStartedAt >= before);
});

test("an end outside a turn has no turn fields, one in a turn has them", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  core.say(ended);
  assert.equal("turnId" in seen.ended[0], false);
  core.answer("resume_thread", () => ({ snapshot: { threadId: "t1", status: "idle", latestSeq: 5 } }));
  await session.resume();
  core.seq = 5;
  const { op } = await turn(core, session);
  core.say(ended);
  assert.equal(seen.ended[1].turnId, op);
});

test("an event that is not newer than the last one is ignored", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  const { op } = await turn(core, session);
  core.say(message(op, "once"));
  core.say({ ...message(op, "again"), seq: core.seq }, { ...message(op, "old"), seq: 1 });
  assert.deepEqual(seen.chat.map(([text]) => text), ["once"]);
});

test("an event of an operation that is not the active one is ignored", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  const { op } = await turn(core, session);
  core.say(message("op_old", "late"), status("idle", "op_old"), call("op_old", "r0", "paint"), completed("op_old"));
  core.say({ type: "error", source: "core", operationId: "op_old", error: { code: "X" } });
  assert.deepEqual([seen.chat, seen.error, session.getStatus()], [[], [], "running"]);
  core.say(...succeed(op));
  core.say(message(op, "after"));
  assert.deepEqual(seen.chat, []);
});

test("a status without an operation is ignored while a turn is active, and taken after it", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  const { op } = await turn(core, session);
  core.say(status("idle"));
  assert.equal(session.getStatus(), "running");
  core.say(completed(op, { error: { code: "OPERATION_INTERRUPTED", message: "" } }), status("idle"));
  assert.equal(session.getStatus(), "idle");
});

test("a turn that another page began shows here, and is followed", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  core.say(status("running", "op_other"), message("op_other", "theirs"), ...succeed("op_other"));
  assert.deepEqual(words(seen), ["running", "idle"]);
  assert.equal(seen.chat[0][0], "theirs");
  assert.equal(session.getStatus(), "idle");
});

test("a completion of another kind is a protocol error", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  const { done, op } = await turn(core, session);
  core.say(status("idle", op), completed(op, { kind: "prepare" }));
  await assert.rejects(done, { code: "SDK_PROTOCOL_ERROR" });
});
