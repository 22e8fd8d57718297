// The module against the daemon itself, with the scripted agent. PEDELEC_CORE
// names the program; without it these tests are skipped.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile, mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { Pedelec } from "../pedelec.js";
import { watch } from "./fake.js";
import { socketOf } from "./socket.js";

const program = process.env.PEDELEC_CORE;
const origin = "http://127.0.0.1:9999";
const skip = program ? false : "PEDELEC_CORE names no program";
const run = promisify(execFile);

let folder, home, daemon;

before(async () => {
  if (skip) return;
  folder = await mkdtemp(join(tmpdir(), "pedelec-js-"));
  home = join(folder, "home");
  await mkdir(home, { mode: 0o700 });
  const opencode = { command: [program, "agent", "--scripted"], env: { PEDELEC_SCRIPTED_STATE: join(folder, "agent") } };
  await writeFile(join(home, "settings.json"), JSON.stringify({ defaultProvider: "opencode", providerSettings: { opencode } }));
  await start();
  await run(program, ["--home", home, "origins", "approve", origin]);
});

after(async () => {
  for (const client of clients) client.close();
  if (daemon) await stop("SIGTERM");
  if (folder) await rm(folder, { recursive: true, force: true });
});

// start starts the daemon and waits until it says that it is ready.
async function start() {
  daemon = spawn(program, ["serve", "--home", home, "--parent-pid", String(process.pid)], { stdio: ["ignore", "ignore", "pipe"] });
  daemon.gone = new Promise((resolve) => daemon.on("exit", resolve));
  let said = "";
  daemon.stderr.on("data", (chunk) => (said += chunk));
  for (;;) {
    try {
      const file = JSON.parse(await readFile(join(home, "runtime.json"), "utf8"));
      if (file.pid === daemon.pid) return;
    } catch {
      // not there yet
    }
    if (daemon.exitCode !== null) throw new Error(`the daemon left at its start: ${said}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

async function stop(signal) {
  daemon.kill(signal);
  await daemon.gone;
}

const clients = [];

function client(from = origin, options) {
  const endpoint = async () => JSON.parse(await readFile(join(home, "runtime.json"), "utf8")).httpEndpoint;
  const made = new Pedelec({ endpoint, WebSocket: socketOf(from), ...options });
  clients.push(made);
  return made;
}

const paint = {
  name: "paint", description: "Paints the wall.",
  argsSchema: { type: "object", properties: { color: { type: "string" } }, required: ["color"] },
};

test("real: prepare, a streamed turn, usage, end, resume, a turn in the same conversation", { skip }, async () => {
  const session = await client().createSession();
  const seen = watch(session);
  await session.prepare();
  assert.deepEqual([seen.chat, seen.delta], [[], []]);
  await session.sendText("stream 12 every 5ms ; usage 40");
  assert.ok(seen.delta.length > 1);
  assert.equal(seen.delta.map(([text]) => text).join(""), seen.chat.map(([text]) => text).join(""));
  assert.ok(session.usage.totalTokens >= 40);
  await session.end();
  assert.deepEqual([session.getStatus(), seen.ended.length], ["ended", 1]);
  await assert.rejects(session.sendText("x"), { code: "SESSION_ENDED" });
  await session.resume();
  await session.sendText("whoami");
  assert.match(seen.chat.at(-1)[0], /^session=/);
  assert.deepEqual(seen.status.map(([value]) => value), ["running", "idle", "running", "idle", "ended", "idle", "running", "idle"]);
  await session.end();
  assert.equal(seen.ended.length, 2);
});

test("real: a turn that fails, and one that is cancelled", { skip }, async () => {
  const session = await client().createSession();
  await assert.rejects(session.sendText("fail no luck"), { code: "PROVIDER_REQUEST_FAILED" });
  assert.equal(session.getStatus(), "error");
  await assert.rejects(session.sendText("x"), { code: "SESSION_ERROR" });
  await session.prepare();
  const done = session.sendText("stream 2000 every 20ms");
  await new Promise((resolve) => session.onChatDelta(resolve));
  const rejected = assert.rejects(done, { code: "OPERATION_CANCELLED" });
  assert.equal(await session.cancel(), true);
  await rejected;
  await session.end();
});

test("real: the agent calls a function of the page, inline and named", { skip }, async () => {
  const calls = [];
  const tool = { ...paint, handler: (args) => (calls.push(args), { painted: "inline" }) };
  const session = await client().createSession({ skills: { guidance: "A wall.", tools: [tool] } });
  const seen = watch(session);
  await session.sendText('call paint {"color":"teal"}');
  assert.match(seen.chat.at(-1)[0], /inline/);
  session.onTool("paint", () => {
    throw new Error("no paint");
  });
  await session.sendText('call paint {"color":"red"}');
  assert.match(seen.chat.at(-1)[0], /TOOL_HANDLER_ERROR.*no paint/);
  assert.deepEqual(calls, [{ color: "teal" }]);
  await session.end();
});

test("real: a page that is reloaded in the middle of a tool call answers it", { skip }, async () => {
  const first = client();
  const before = await first.createSession({ skills: { tools: [paint] }, autoEndOnDisconnect: false });
  const lost = assert.rejects(before.sendText('call paint {"color":"teal"}'), { code: "SDK_TRANSPORT_DISCONNECTED" });
  await new Promise((resolve) => before.onStatus((value) => value === "waiting_tool_result" && resolve()));
  first.close();
  await lost;
  const session = await client().resumeSession(before.sessionId);
  assert.equal(session.getStatus(), "waiting_tool_result");
  const seen = watch(session);
  const idle = new Promise((resolve) => session.onStatus((value) => value === "idle" && resolve()));
  session.onTool("paint", (args) => ({ recovered: args.color }));
  await idle;
  assert.match(seen.chat.at(-1)[0], /recovered.*teal/);
  await session.end();
});

test("real: files go to the agent and back", { skip }, async () => {
  const session = await client().createSession();
  assert.equal(await session.uploadAsset(new File(["one"], "a.txt"), "/in/a.txt"), "/in/a.txt");
  assert.match(await session.uploadAsset(new File(["{}"], "b.json")), /^\/upl_[0-9a-f]{16}-b\.json$/);
  assert.equal((await session.listAssets()).length, 2);
  assert.equal(await session.readAsset("/in/a.txt", "text"), "one");
  await session.sendText("write .pedelec-runtime/assets/in/a.txt two");
  const file = await session.readAsset("/in/a.txt", "file");
  assert.deepEqual([file.name, file.type.split(";")[0], await file.text()], ["a.txt", "text/plain", "two"]);
  await assert.rejects(session.readAsset("/none", "text"), { code: "ASSET_NOT_FOUND" });
  await session.end();
  await assert.rejects(session.listAssets(), { code: "SESSION_ENDED" });
});

test("real: a page of another origin is refused until the user approves it, and cut off when that is taken back", { skip }, async () => {
  const other = "http://127.0.0.1:9998";
  const page = client(other, { onApprovalRequired: () => void run(program, ["--home", home, "origins", "approve", other]) });
  const stranger = client(origin);
  const session = await page.createSession();
  await assert.rejects(stranger.resumeSession(session.sessionId), { code: "THREAD_ACCESS_DENIED" });
  const lost = new Promise((resolve) => session.onError((error) => resolve(error.code)));
  await run(program, ["--home", home, "origins", "revoke", other]);
  assert.equal(await lost, "SDK_TRANSPORT_DISCONNECTED");
  const rejecting = client(other, { onApprovalRequired: () => void run(program, ["--home", home, "origins", "reject", other]) });
  await assert.rejects(rejecting.createSession(), { code: "APPROVAL_REJECTED" });
});

test("real: kill -9 of the daemon in a turn: the promise rejects, the status is right, the next send works", { skip }, async () => {
  const workspace = { path: join(folder, "project") };
  const page = client();
  const session = await page.createSession({ workspace, autoEndOnDisconnect: false });
  const seen = watch(session);
  await session.sendText("message kept");
  const lost = assert.rejects(session.sendText("stream 2000 every 20ms"), { code: "SDK_TRANSPORT_DISCONNECTED" });
  await new Promise((resolve) => session.onChatDelta(resolve));
  await stop("SIGKILL");
  await lost;
  assert.deepEqual([session.getStatus(), seen.error.at(-1)[0].code], ["error", "SDK_TRANSPORT_DISCONNECTED"]);
  await start();
  const again = await page.resumeSession(session.sessionId);
  const heard = watch(again);
  if (again.getStatus() !== "idle") await new Promise((resolve) => again.onStatus((value) => value === "idle" && resolve()));
  await again.sendText("whoami");
  assert.match(heard.chat.at(-1)[0], /^session=/);
  await again.end();
});
