// The page's functions: who answers, what an agent gets, calls that were there
// before the page.

import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeCore, began, call, completed, idle, settled, status, succeed, turn } from "./fake.js";

const manifest = (handler) => ({ skills: { tools: [{ name: "paint", description: "d", argsSchema: { type: "object" }, handler }] } });

async function asked(core, session, toolName = "paint", args = { color: "teal" }, requestId = "r1") {
  const { op } = await turn(core, session);
  core.say(status("waitingToolResult", op), call(op, requestId, toolName, args));
  return op;
}

test("a named handler gets the arguments and answers for the page", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  const calls = [];
  session.onTool("paint", (args, ctx) => {
    calls.push([args, ctx]);
    return { painted: true };
  });
  const op = await asked(core, session);
  assert.deepEqual(await core.asked("submit_tool_result"), { threadId: "t1", requestId: "r1", result: { painted: true } });
  const [[args, ctx]] = calls;
  assert.deepEqual(args, { color: "teal" });
  assert.deepEqual([ctx.type, ctx.toolRequestId, ctx.tool, ctx.turnId, ctx.source], ["tool_call", "r1", "paint", op, "core"]);
  assert.ok(ctx.eventReceivedAt);
});

test("a generic handler gets the tool's name first", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  session.onTool((tool, args, ctx) => [tool, args, ctx.toolRequestId]);
  await asked(core, session);
  assert.deepEqual((await core.asked("submit_tool_result")).result, ["paint", { color: "teal" }, "r1"]);
});

for (const [title, add, want] of [
  ["a named handler goes before inline and generic ones", ["generic", "named"], "named"],
  ["an inline handler goes before generic ones", ["generic"], "inline"],
]) {
  test(title, async () => {
    const core = new FakeCore();
    const { session } = await began(core, manifest(() => "inline"));
    if (add.includes("generic")) session.onTool(() => "generic");
    if (add.includes("named")) session.onTool("paint", () => "named");
    await asked(core, session);
    assert.equal((await core.asked("submit_tool_result")).result, want);
  });
}

test("a generic handler answers where neither a named nor an inline one does", async () => {
  const core = new FakeCore();
  const { session } = await began(core, manifest(() => "inline"));
  session.onTool("other", () => "named");
  session.onTool(() => "generic");
  await asked(core, session, "third");
  assert.equal((await core.asked("submit_tool_result")).result, "generic");
});

test("taking the named handler away brings the inline one back", async () => {
  const core = new FakeCore();
  const { session } = await began(core, manifest(() => "inline"));
  session.onTool("paint", () => "named")();
  await asked(core, session);
  assert.equal((await core.asked("submit_tool_result")).result, "inline");
});

test("a handler may be asynchronous, and what it returns is submitted by itself", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  session.onTool("paint", async () => {
    await settled();
    return [1, "two", null];
  });
  await asked(core, session);
  assert.deepEqual((await core.asked("submit_tool_result")).result, [1, "two", null]);
});

test("taking a handler away does not stop a call that it is answering", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  let finish;
  const off = session.onTool("paint", () => new Promise((resolve) => (finish = resolve)));
  await asked(core, session);
  off();
  finish("done");
  assert.equal((await core.asked("submit_tool_result")).result, "done");
});

test("a handler that returns nothing answers null", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  session.onTool("paint", () => {});
  await asked(core, session);
  assert.equal((await core.asked("submit_tool_result")).result, null);
});

for (const [title, handler] of [
  ["a throw", () => { throw new Error("no paint"); }],
  ["a rejection", async () => { throw new Error("no paint"); }],
]) {
  test(`${title} becomes a TOOL_HANDLER_ERROR for the agent`, async () => {
    const core = new FakeCore();
    const { session, seen } = await began(core);
    session.onTool("paint", handler);
    await asked(core, session);
    const { result } = await core.asked("submit_tool_result");
    assert.deepEqual(result, { error: { code: "TOOL_HANDLER_ERROR", message: "no paint" } });
    assert.deepEqual(seen.error, []);
  });
}

for (const [title, value] of [["a cycle", () => { const a = {}; a.a = a; return a; }], ["a big integer", () => 1n], ["a function", () => () => {}]]) {
  test(`${title} is no JSON value: TOOL_HANDLER_ERROR`, async () => {
    const core = new FakeCore();
    const { session } = await began(core);
    session.onTool("paint", value);
    await asked(core, session);
    assert.equal((await core.asked("submit_tool_result")).result.error.code, "TOOL_HANDLER_ERROR");
  });
}

test("a result that is too large is told to the agent instead of left unanswered", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  session.onTool("paint", () => "x".repeat(1_100_000));
  await asked(core, session);
  assert.equal((await core.asked("submit_tool_result")).result.error.code, "TOOL_RESULT_TOO_LARGE");
});

test("a result that cannot be submitted is an SDK error SUBMIT_TOOL_RESULT_FAILED; the status is the daemon's affair", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  core.refuse("submit_tool_result", "PENDING_TOOL_REQUEST_NOT_FOUND");
  session.onTool("paint", () => 1);
  await asked(core, session);
  await core.asked("submit_tool_result");
  await settled();
  const [error, ctx] = seen.error[0];
  assert.deepEqual([error.code, error.details.cause, error.details.requestId], ["SUBMIT_TOOL_RESULT_FAILED", "PENDING_TOOL_REQUEST_NOT_FOUND", "r1"]);
  assert.deepEqual([ctx.type, ctx.source, session.getStatus()], ["sdk_error", "sdk", "waiting_tool_result"]);
});

test("a call that the page has no handler for is answered, once it has any", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  session.onTool("other", () => 1);
  await asked(core, session);
  assert.equal((await core.asked("submit_tool_result")).result.error.code, "TOOL_HANDLER_NOT_FOUND");
});

test("a call waits while the page has registered no handler at all", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  await asked(core, session);
  await settled();
  assert.equal(core.of("submit_tool_result").length, 0);
  session.onTool("paint", () => "late");
  assert.equal((await core.asked("submit_tool_result")).result, "late");
});

test("one request reaches a handler once", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  let calls = 0;
  session.onTool("paint", () => ++calls);
  const op = await asked(core, session);
  core.say(call(op, "r1", "paint"));
  await settled();
  assert.equal(calls, 1);
});

// calls that were there before the page

const recovered = () => idle({
  status: "waitingToolResult",
  activeOperation: { operationId: "op9", operationKind: "user", startedAt: "2026-01-02T03:04:05Z" },
  pendingToolRequest: { requestId: "r9", threadId: "t1", operationId: "op9", toolName: "paint", args: { color: "red" }, createdAt: "", timeoutMs: 60000 },
});

test("a recovered request is kept until a matching handler is there", async () => {
  const core = new FakeCore();
  core.snapshot = recovered();
  const session = await core.client().resumeSession("t1");
  assert.equal(session.getStatus(), "waiting_tool_result");
  session.onTool("other", () => "wrong");
  await settled();
  assert.equal(core.of("submit_tool_result").length, 0);
  const calls = [];
  session.onTool("paint", (args, ctx) => {
    calls.push([args, ctx.toolRequestId, ctx.turnId]);
    return "done";
  });
  assert.deepEqual(await core.asked("submit_tool_result"), { threadId: "t1", requestId: "r9", result: "done" });
  assert.deepEqual(calls, [[{ color: "red" }, "r9", "op9"]]);
  core.say(status("running", "op9"), ...succeed("op9"));
  assert.equal(session.getStatus(), "idle");
});

test("a named handler that is registered after a generic one still goes first", async () => {
  const core = new FakeCore();
  core.snapshot = recovered();
  const session = await core.client().resumeSession("t1");
  session.onTool(() => "generic");
  session.onTool("paint", () => "named");
  assert.equal((await core.asked("submit_tool_result")).result, "named");
});

for (const [title, events] of [
  ["another page answered", [{ type: "tool_result", operationId: "op9", requestId: "r9", toolName: "paint", result: 1 }]],
  ["its time was over", [status("running", "op9")]],
  ["its turn is over", [completed("op9", { error: { code: "X" } })]],
  ["the session ended", [{ type: "ended" }]],
]) {
  test(`a recovered request is forgotten when ${title}`, async () => {
    const core = new FakeCore();
    core.snapshot = recovered();
    const session = await core.client().resumeSession("t1");
    await settled();
    core.say(...events);
    session.onTool("paint", () => "late");
    await settled();
    assert.equal(core.of("submit_tool_result").length, 0);
  });
}

test("inline handlers are not there on a page that only attached", async () => {
  const core = new FakeCore();
  const { client } = await began(core, manifest(() => "inline"));
  core.snapshot = recovered();
  await client.resumeSession("t1");
  await settled();
  assert.equal(core.of("submit_tool_result").length, 0);
});
