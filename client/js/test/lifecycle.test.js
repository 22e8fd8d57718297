// Sessions across pages and connections: create, resume by id, lost connections,
// approval.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Pedelec, PedelecError } from "../pedelec.js";
import { FakeCore, began, call, completed, delta, ended, idle, message, settled, status, succeed, turn, watch } from "./fake.js";

const code = (expected) => (error) => error instanceof PedelecError && error.code === expected;

// createSession

test("autoEndOnDisconnect is true by default and false when asked for", async () => {
  const core = new FakeCore();
  const client = core.client();
  await client.createSession({ provider: "codex" });
  await client.createSession({ provider: "codex", autoEndOnDisconnect: false });
  assert.deepEqual(core.of("create_thread").map((p) => p.autoEndOnDisconnect), [true, false]);
});

test("createSession without a provider takes the default of the settings", async () => {
  const core = new FakeCore();
  const session = await core.client().createSession();
  assert.equal(session.provider, "codex");
  core.answer("get_settings", () => ({ defaultProvider: null }));
  await assert.rejects(core.client().createSession(), code("DEFAULT_PROVIDER_NOT_SET"));
});

test("createSession hands over skills, effort and workspace, and keeps functions in the page", async () => {
  const core = new FakeCore();
  const tool = { name: "paint", description: "Paints.", argsSchema: { type: "object" }, timeoutMs: 5 };
  await core.client().createSession({
    provider: "codex", effortLevel: "high", workspace: { path: "/project" },
    skills: { guidance: "A wall.", tools: [{ ...tool, handler: () => 1 }] },
  });
  assert.deepEqual(core.of("create_thread")[0], {
    provider: "codex", effortLevel: "high", workspace: { path: "/project" },
    skills: { guidance: "A wall.", tools: [tool] }, autoEndOnDisconnect: true,
  });
  assert.equal(core.requests[0].callerSdkVersion, "1.0.0");
});

test("a session that cannot be subscribed to is ended again", async () => {
  const core = new FakeCore();
  core.refuse("subscribe_thread", "OVERLOADED");
  await assert.rejects(core.client().createSession({ provider: "codex" }), code("OVERLOADED"));
  await core.asked("end_thread");
});

test("a new session is idle", async () => {
  const { session } = await began(new FakeCore());
  assert.equal(session.getStatus(), "idle");
});

// resumeSession

for (const id of ["", "  ", undefined]) {
  test(`resumeSession of ${JSON.stringify(id)} rejects INVALID_INPUT`, async () => {
    const core = new FakeCore();
    await assert.rejects(core.client().resumeSession(id), code("INVALID_INPUT"));
    assert.equal(core.requests.length, 0);
  });
}

for (const refused of ["THREAD_NOT_FOUND", "THREAD_ACCESS_DENIED"]) {
  test(`resumeSession rejects ${refused} and makes no other session`, async () => {
    const core = new FakeCore();
    core.refuse("subscribe_thread", refused);
    await assert.rejects(core.client().resumeSession("t1"), code(refused));
    assert.equal(core.of("create_thread").length, 0);
  });
}

for (const [wire, seen] of [["running", "running"], ["stopping", "running"], ["waitingToolResult", "waiting_tool_result"], ["error", "error"], ["ended", "ended"]]) {
  test(`resumeSession is in step when it resolves: ${wire} is ${seen}`, async () => {
    const core = new FakeCore();
    core.snapshot = idle({ status: wire });
    const session = await core.client().resumeSession("t1");
    assert.equal(session.getStatus(), seen);
  });
}

test("resumeSession of an ended session leaves it ended and resumes nothing", async () => {
  const core = new FakeCore();
  core.snapshot = idle({ status: "ended" });
  const session = await core.client().resumeSession("t1");
  await settled();
  assert.equal(session.getStatus(), "ended");
  assert.equal(core.of("resume_thread").length, 0);
});

test("an ended session that was attached to comes back by resume of its handle", async () => {
  const core = new FakeCore();
  core.snapshot = idle({ status: "ended" });
  const session = await core.client().resumeSession("t1");
  core.answer("resume_thread", () => ({ snapshot: idle({ latestSeq: 5 }) }));
  await session.resume();
  assert.equal(session.getStatus(), "idle");
});

test("a resumed handle takes the active operation from the snapshot and follows it to its end", async () => {
  const core = new FakeCore();
  const startedAt = "2026-01-02T03:04:05.678Z";
  core.snapshot = idle({ status: "running", activeOperation: { operationId: "op9", operationKind: "user", startedAt } });
  const session = await core.client().resumeSession("t1");
  const seen = watch(session);
  await assert.rejects(session.sendText("x"), code("SESSION_BUSY"));
  await settled();
  core.say(delta("op9", "wo"), message("op9", "word"), ...succeed("op9"));
  assert.equal(seen.chat[0][0], "word");
  assert.deepEqual([seen.chat[0][1].turnId, seen.chat[0][1].turnStartedAt], ["op9", Date.parse(startedAt)]);
  assert.equal(session.getStatus(), "idle");
});

test("a snapshot that cannot be read rejects SDK_LIFECYCLE_SYNC_ERROR", async () => {
  const core = new FakeCore();
  core.snapshot = { threadId: "t1", status: "sideways", latestSeq: 1 };
  await assert.rejects(core.client().resumeSession("t1"), code("SDK_LIFECYCLE_SYNC_ERROR"));
});

test("events that come before handlers can be registered wait for them", async () => {
  const core = new FakeCore();
  core.snapshot = idle({ status: "running", activeOperation: { operationId: "op9", operationKind: "user", startedAt: "" } });
  core.answer("subscribe_thread", () => {
    queueMicrotask(() => core.say(message("op9", "early"), ...succeed("op9")));
    return { subscribed: true, snapshot: core.snapshot };
  });
  const session = await core.client().resumeSession("t1");
  const seen = watch(session);
  await settled();
  assert.equal(seen.chat[0][0], "early");
  assert.equal(session.getStatus(), "idle");
});

test("what was streamed of an incomplete message comes first, as a piece", async () => {
  const core = new FakeCore();
  core.snapshot = idle({
    status: "running", activeMessage: { text: "Once upon" },
    activeOperation: { operationId: "op9", operationKind: "user", startedAt: "" },
  });
  const session = await core.client().resumeSession("t1");
  const seen = watch(session);
  core.say(delta("op9", " a time"));
  await settled();
  assert.deepEqual(seen.delta.map(([text]) => text), ["Once upon", " a time"]);
});

test("handlers of an old handle are not carried over to a resumed one", async () => {
  const core = new FakeCore();
  const { client, seen } = await began(core);
  core.drop();
  const again = await client.resumeSession("t1");
  const { op } = await turn(core, again);
  core.say(message(op, "new"));
  assert.deepEqual(seen.chat, []);
});

test("with afterSeq, messages that were missed are told once; what became of the rest is in the snapshot", async () => {
  const core = new FakeCore();
  core.snapshot = idle({ latestSeq: 8 });
  const session = await core.client().resumeSession("t1", { afterSeq: 3 });
  assert.equal(core.of("subscribe_thread")[0].afterSeq, 3);
  const seen = watch(session);
  await settled();
  core.say(
    { ...status("running", "op1"), seq: 4 }, { ...call("op1", "r1", "paint"), seq: 5 }, { ...message("op1", "missed"), seq: 6 },
    { ...message("op1", "missed"), seq: 6 }, { ...status("idle", "op1"), seq: 7 }, { ...completed("op1"), seq: 8 },
  );
  assert.deepEqual(seen.chat.map(([text, ctx]) => [text, ctx.turnId]), [["missed", "op1"]]);
  assert.deepEqual(seen.status, []);
});

test("two handles of one session on one client both hear everything", async () => {
  const core = new FakeCore();
  const client = core.client();
  const first = watch(await client.resumeSession("t1"));
  await settled();
  core.say(status("running", "op1"));
  core.snapshot = idle({ status: "running", latestSeq: 3, activeOperation: { operationId: "op1", operationKind: "user", startedAt: "" } });
  const second = watch(await client.resumeSession("t1"));
  assert.equal(core.of("subscribe_thread")[1].afterSeq, 3);
  await settled();
  core.say(message("op1", "both"));
  assert.deepEqual([first.chat.length, second.chat.length], [1, 1]);
});

// a lost connection

test("a lost connection detaches the handle: its promise rejects, its status is error", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  const { done, op } = await turn(core, session);
  core.drop();
  await assert.rejects(done, (e) => code("SDK_TRANSPORT_DISCONNECTED")(e) && e.details.operationId === op && e.details.sessionId === "t1");
  assert.deepEqual([session.getStatus(), session.attached], ["error", false]);
  assert.deepEqual(seen.error.map(([error, ctx]) => [error.code, ctx.type]), [["SDK_TRANSPORT_DISCONNECTED", "sdk_error"]]);
  assert.deepEqual(seen.ended, []);
});

test("a detached handle stays useless although its client is connected again", async () => {
  const core = new FakeCore();
  const { client, session } = await began(core);
  core.drop();
  await client.ping();
  for (const call of [() => session.sendText("x"), () => session.prepare(), () => session.resume(), () => session.end(),
    () => session.listAssets(), () => session.readAsset("/a", "text"), () => session.uploadAsset(new File(["x"], "x")), () => session.cancel()]) {
    await assert.rejects(call(), code("SDK_TRANSPORT_DISCONNECTED"));
  }
  assert.equal(core.sockets.length, 2);
});

test("resumeSession gives a new handle of the session that lives on", async () => {
  const core = new FakeCore();
  const { client, session } = await began(core);
  core.drop();
  const again = await client.resumeSession(session.sessionId);
  assert.notEqual(again, session);
  const { done, op } = await turn(core, again);
  core.say(...succeed(op));
  await done;
  assert.equal(session.getStatus(), "error");
});

test("a new handle goes on from the last event that the lost one saw", async () => {
  const core = new FakeCore();
  const { client, session } = await began(core);
  const { op } = await turn(core, session);
  core.say(message(op, "seen"));
  core.drop();
  await client.resumeSession("t1");
  assert.equal(core.of("subscribe_thread")[1].afterSeq, core.seq);
  assert.equal(core.seq, session.lastEventSeq);
});

test("nothing is sent again by itself: not a text, not a preparation, not a tool result", async () => {
  const core = new FakeCore();
  const { client, session } = await began(core);
  const { op } = await turn(core, session);
  const release = core.hold("submit_tool_result");
  session.onTool(() => 1);
  core.say(status("waitingToolResult", op), call(op, "r1", "paint"));
  await core.asked("submit_tool_result");
  core.drop();
  await client.resumeSession("t1");
  await settled();
  release();
  for (const type of ["send_text", "submit_tool_result"]) assert.equal(core.of(type).length, 1);
});

test("a session that has ended stays ended when its connection is lost", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  await session.end();
  core.drop();
  assert.equal(session.getStatus(), "ended");
  assert.deepEqual(seen.error, []);
  await session.end();
});

test("the endpoint is asked for anew at every connection", async () => {
  const core = new FakeCore();
  let port = 1;
  const client = new Pedelec({ endpoint: async () => `http://127.0.0.1:${port++}`, WebSocket: core.WebSocket });
  await client.ping();
  core.drop();
  await client.ping();
  assert.deepEqual(core.sockets.map(({ url }) => url), ["ws://127.0.0.1:1/v1/ipc", "ws://127.0.0.1:2/v1/ipc"]);
  assert.deepEqual(core.sockets[0].protocols, ["pedelec.v1"]);
});

test("concurrent calls share one connection", async () => {
  const core = new FakeCore();
  const client = core.client();
  await Promise.all([client.ping(), client.ping(), client.resumeSession("t1")]);
  assert.equal(core.sockets.length, 1);
});

test("a daemon that cannot be reached is CORE_RUNTIME_UNAVAILABLE", async () => {
  const core = new FakeCore();
  core.down = true;
  await assert.rejects(core.client().createSession({ provider: "codex" }), code("CORE_RUNTIME_UNAVAILABLE"));
});

test("a request that is not answered rejects SDK_BRIDGE_TIMEOUT", async () => {
  const core = new FakeCore();
  const release = core.hold("ping");
  await assert.rejects(core.client({ requestTimeoutMs: 5 }).ping(), code("SDK_BRIDGE_TIMEOUT"));
  release();
});

test("a request that is too large is not sent", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  await assert.rejects(session.sendText("x".repeat(1_100_000)), code("MESSAGE_TOO_LARGE"));
  assert.equal(session.getStatus(), "idle");
});

test("more than 32 requests wait in the page", async () => {
  const core = new FakeCore();
  const client = core.client();
  await client.ping();
  const release = core.hold("ping");
  const all = Array.from({ length: 40 }, () => client.ping());
  await settled();
  assert.equal(core.requests.length, 33);
  release();
  await Promise.all(all);
});

test("close detaches all handles and opens no new connection", async () => {
  const core = new FakeCore();
  const { client, session } = await began(core);
  client.close();
  assert.equal(session.attached, false);
  await assert.rejects(client.ping(), code("SDK_TRANSPORT_DISCONNECTED"));
});

for (const endpoint of [undefined, "", "::::", 7]) {
  test(`${JSON.stringify(endpoint)} is no endpoint`, () => {
    assert.throws(() => new Pedelec({ endpoint }), code("INVALID_INPUT"));
  });
}

// approval

test("an origin that is not approved asks for approval, once, and then goes on", async () => {
  const core = new FakeCore();
  let approved = false;
  const asked = [];
  core.answer("subscribe_thread", () => {
    if (!approved) throw { code: "ORIGIN_NOT_APPROVED" };
    return { subscribed: true, snapshot: core.snapshot };
  });
  core.answer("request_approval", () => {
    approved = true;
    return { approved: true };
  });
  const client = core.client({ onApprovalRequired: (about) => asked.push(about) });
  const sessions = await Promise.all([client.resumeSession("t1"), client.resumeSession("t1")]);
  assert.equal(sessions[0].getStatus(), "idle");
  assert.equal(core.requests.filter(({ type }) => type === "request_approval").length, 1);
  assert.equal(asked.length, 1);
});

for (const decided of ["APPROVAL_REJECTED", "APPROVAL_TIMEOUT"]) {
  test(`${decided} rejects the call that asked`, async () => {
    const core = new FakeCore();
    core.refuse("create_thread", "ORIGIN_NOT_APPROVED");
    core.refuse("request_approval", decided);
    await assert.rejects(core.client().createSession({ provider: "codex" }), code(decided));
  });
}

test("ping asks for no approval", async () => {
  const core = new FakeCore();
  core.refuse("ping", "ORIGIN_NOT_APPROVED");
  await assert.rejects(core.client().ping(), code("ORIGIN_NOT_APPROVED"));
});

// ended by the daemon

test("an end that another page asked for ends this handle too", async () => {
  const core = new FakeCore();
  const { session, seen } = await began(core);
  core.say(ended, status("ended"));
  assert.equal(session.getStatus(), "ended");
  assert.deepEqual(seen.ended.map(({ type, source }) => [type, source]), [["ended", "core"]]);
});
