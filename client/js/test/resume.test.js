// A handle that has ended comes back by resume.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PedelecError } from "../pedelec.js";
import { FakeCore, began, call, ended, idle, message, preparing, settled, status, succeed, turn } from "./fake.js";

const code = (expected) => (error) => error instanceof PedelecError && error.code === expected;

const resumable = (core) => core.answer("resume_thread", () => ({ snapshot: idle({ latestSeq: 9 }) }));

test("resume makes the same handle idle again, and keeps its id, handlers and metadata", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core, { effortLevel: "low" });
  resumable(core);
  await session.end();
  await session.resume();
  assert.deepEqual([session.getStatus(), session.sessionId, session.provider, session.effortLevel], ["idle", "t1", "codex", "low"]);
  core.seq = 9;
  const { op } = await turn(core, session);
  core.say(message(op, "again"));
  assert.equal(seen.chat[0][0], "again");
});

test("resume keeps that the session is prepared", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  const { done, op } = await preparing(core, session);
  core.say(...succeed(op, "prepare"));
  await done;
  resumable(core);
  await session.end();
  await session.resume();
  await session.prepare();
  assert.equal(core.of("prepare_thread").length, 1);
});

test("resume keeps inline handlers", async () => {
  const core = new FakeCore();
  const tool = { name: "paint", description: "d", argsSchema: { type: "object" }, handler: () => "inline" };
  const { session } = await began(core, { skills: { tools: [tool] } });
  resumable(core);
  await session.end();
  await session.resume();
  core.seq = 9;
  const { op } = await turn(core, session);
  core.say(status("waitingToolResult", op), call(op, "r1", "paint"));
  assert.equal((await core.asked("submit_tool_result")).result, "inline");
});

test("resume of an active handle resolves and asks nothing", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  await session.resume();
  assert.equal(core.of("resume_thread").length, 0);
});

test("concurrent resumes of an ended handle share one request", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  resumable(core);
  await session.end();
  await Promise.all([session.resume(), session.resume()]);
  assert.equal(core.of("resume_thread").length, 1);
});

for (const refused of ["WORKSPACE_OPEN_FAILED", "THREAD_NOT_FOUND"]) {
  test(`resume rejects ${refused} and the handle stays ended`, async () => {
    const core = new FakeCore();
    const { session } = await began(core);
    await session.end();
    core.refuse("resume_thread", refused);
    await assert.rejects(session.resume(), code(refused));
    assert.equal(session.getStatus(), "ended");
    resumable(core);
    await session.resume();
    assert.equal(session.getStatus(), "idle");
  });
}

test("resume of a detached handle rejects", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  await session.end();
  core.drop();
  await assert.rejects(session.resume(), code("SDK_TRANSPORT_DISCONNECTED"));
});

test("resume waits until the subscription of before is given up", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  resumable(core);
  const release = core.hold("unsubscribe_thread");
  await session.end();
  const done = session.resume();
  await settled();
  assert.equal(core.of("subscribe_thread").length, 1);
  release();
  await done;
  assert.equal(core.of("subscribe_thread").length, 2);
});

test("after resume the handle is idle, also when another page begins a turn at that moment", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  await session.end();
  core.answer("resume_thread", () => {
    core.say({ ...status("idle"), seq: 9 }, { ...status("running", "operation_other"), seq: 10 });
    return { snapshot: idle({ latestSeq: 9 }) };
  });
  await session.resume();
  assert.equal(session.getStatus(), "idle");
  await settled();
  assert.equal(session.getStatus(), "running");
});

test("resume does not set idle early: it waits for the daemon's word", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  resumable(core);
  await session.end();
  const release = core.hold("resume_thread");
  const done = session.resume();
  await core.asked("resume_thread");
  assert.equal(session.getStatus(), "ended");
  release();
  await done;
  assert.equal(session.getStatus(), "idle");
  const [value, ctx] = seen.status.at(-1);
  assert.deepEqual([value, ctx.source, ctx.type, ctx.previousStatus], ["idle", "core", "status_changed", "ended"]);
});

test("each transition into ended calls onEnded once, again after a resume", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  core.say(ended, ended, status("ended"));
  assert.equal(seen.ended.length, 1);
  resumable(core);
  await session.resume();
  await settled();
  core.say({ ...ended, seq: 30 }, { ...status("ended"), seq: 31 });
  assert.equal(seen.ended.length, 2);
});
