// Files: tickets over the WebSocket, bytes over HTTP, against a small server.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { FakeCore, began, turn } from "./fake.js";

let server, base, serve;
const requests = [];

before(async () => {
  server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const { method, url, headers } = request;
    requests.push({ method, url, headers, body: Buffer.concat(chunks) });
    const { status, body } = serve(requests.at(-1));
    response.writeHead(status).end(body);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  base = `http://127.0.0.1:${server.address().port}`;
});
after(() => {
  server.closeAllConnections();
  server.close();
});

function uploads(core, path = "/upl_1-a.txt") {
  core.answer("create_asset_upload", () => ({ uploadId: "upl_1", uploadUrl: `${base}/uploads/upl_1`, token: "secret", expiresAt: 0 }));
  serve = () => ({ status: 201, body: JSON.stringify({ path }) });
}

function downloads(core, body, more) {
  core.answer("create_asset_download", ({ path }) => ({
    downloadId: "dnl_1", downloadUrl: `${base}/downloads/dnl_1`, token: "secret", path, name: "a.json",
    sizeBytes: body.length, modifiedAt: 1_700_000_000_000, mimeType: "application/json", ...more,
  }));
  serve = () => ({ status: 200, body });
}

const file = (text = "hello", name = "a.txt") => new File([text], name, { type: "text/plain" });

// uploadAsset

test("uploadAsset sends one file and resolves with its path", async () => {
  const core = new FakeCore();
  uploads(core);
  const { session } = await began(core);
  assert.equal(await session.uploadAsset(file()), "/upl_1-a.txt");
  assert.deepEqual(core.of("create_asset_upload")[0], { threadId: "t1", filename: "a.txt", sizeBytes: 5, mimeType: "text/plain" });
  const { method, url, headers, body } = requests.at(-1);
  assert.deepEqual([method, url, headers.authorization, headers["content-type"], body.toString()], ["PUT", "/uploads/upl_1", "Bearer secret", "text/plain", "hello"]);
});

test("uploadAsset with a target writes exactly there", async () => {
  const core = new FakeCore();
  uploads(core, "/in/a.txt");
  const { session } = await began(core);
  assert.equal(await session.uploadAsset(file(), "/in/a.txt"), "/in/a.txt");
  assert.equal(core.of("create_asset_upload")[0].targetPath, "/in/a.txt");
});

test("an answer with another path than the target is SDK_PROTOCOL_ERROR", async () => {
  const core = new FakeCore();
  uploads(core, "/elsewhere");
  const { session } = await began(core);
  await assert.rejects(session.uploadAsset(file(), "/in/a.txt"), { code: "SDK_PROTOCOL_ERROR" });
});

test("a file over 100 MiB is refused before it is sent", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  await assert.rejects(session.uploadAsset({ name: "big", size: 104_857_601 }), { code: "ASSET_TOO_LARGE" });
  assert.equal(core.of("create_asset_upload").length, 0);
});

test("a session has one upload at a time", async () => {
  const core = new FakeCore();
  uploads(core);
  const { session } = await began(core);
  const first = session.uploadAsset(file());
  await assert.rejects(session.uploadAsset(file()), { code: "SESSION_BUSY" });
  await first;
  await session.uploadAsset(file());
});

test("files may be moved while a turn runs", async () => {
  const core = new FakeCore();
  uploads(core);
  core.answer("list_assets", () => ({ assets: [] }));
  const { session } = await began(core);
  await turn(core, session);
  await session.uploadAsset(file());
  assert.deepEqual(await session.listAssets(), []);
  downloads(core, "x");
  assert.equal(await session.readAsset("/x", "text"), "x");
});

test("an upload that the server refuses rejects with the server's code", async () => {
  const core = new FakeCore();
  uploads(core);
  serve = () => ({ status: 410, body: JSON.stringify({ error: { code: "ASSET_UPLOAD_TICKET_EXPIRED", message: "late", details: { a: 1 } } }) });
  const { session } = await began(core);
  await assert.rejects(session.uploadAsset(file()), { code: "ASSET_UPLOAD_TICKET_EXPIRED", message: "late", details: { a: 1 } });
});

test("an upload that cannot be sent is ASSET_UPLOAD_FAILED", async () => {
  const core = new FakeCore();
  core.answer("create_asset_upload", () => ({ uploadUrl: "http://127.0.0.1:1/uploads/x", token: "t" }));
  const { session } = await began(core);
  await assert.rejects(session.uploadAsset(file()), { code: "ASSET_UPLOAD_FAILED" });
});

test("an upload tells how far it is", async () => {
  const core = new FakeCore();
  uploads(core);
  const { session } = await began(core);
  const told = [];
  await session.uploadAsset(file(), undefined, { onProgress: (...values) => told.push(values) });
  assert.deepEqual(told.at(-1), [5, 5]);
});

// listAssets

test("listAssets gives a flat list in the daemon's order", async () => {
  const core = new FakeCore();
  const list = [
    { name: "b.json", path: "/results/b.json", sizeBytes: 2, modifiedAt: 9 },
    { name: "a", path: "/a", sizeBytes: 1, modifiedAt: 5 },
  ];
  core.answer("list_assets", () => ({ assets: list }));
  const { session } = await began(core);
  assert.deepEqual(await session.listAssets(), list);
});

test("a list with an entry that cannot be read is SDK_PROTOCOL_ERROR", async () => {
  const core = new FakeCore();
  core.answer("list_assets", () => ({ assets: [{ name: "a" }] }));
  const { session } = await began(core);
  await assert.rejects(session.listAssets(), { code: "SDK_PROTOCOL_ERROR" });
});

// readAsset

test("readAsset text is strict UTF-8", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  downloads(core, "grüß dich");
  assert.equal(await session.readAsset("/a.txt", "text"), "grüß dich");
  assert.equal(requests.at(-1).headers.authorization, "Bearer secret");
  downloads(core, Buffer.from([0xff, 0xfe, 0x41]));
  await assert.rejects(session.readAsset("/a.txt", "text"), { code: "ASSET_TEXT_DECODE_FAILED" });
});

test("readAsset json is strict UTF-8, then JSON", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  downloads(core, '{"ok":true}');
  assert.deepEqual(await session.readAsset("/results/a.json", "json"), { ok: true });
  downloads(core, "{");
  await assert.rejects(session.readAsset("/a.json", "json"), { code: "ASSET_INVALID_JSON" });
  downloads(core, Buffer.from([0xff]));
  await assert.rejects(session.readAsset("/a.json", "json"), { code: "ASSET_TEXT_DECODE_FAILED" });
});

test("readAsset file has name, type and time as the daemon tells them", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  downloads(core, "bytes", { name: "model.glb", mimeType: "model/gltf-binary" });
  const got = await session.readAsset("/model.glb", "file");
  assert.deepEqual([got.name, got.type, got.lastModified, await got.text()], ["model.glb", "model/gltf-binary", 1_700_000_000_000, "bytes"]);
});

test("readAsset blob, and how far it is", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  downloads(core, "bytes");
  const told = [];
  const blob = await session.readAsset("/x", "blob", { onProgress: (...values) => told.push(values) });
  assert.deepEqual([blob.size, blob.type, told.at(-1)], [5, "application/json", [5, 5]]);
});

for (const path of ["a.txt", "/", "//a", "/a/", "/./a", "/../a", "/a\\b", "", undefined]) {
  test(`${JSON.stringify(path)} is no path`, async () => {
    const core = new FakeCore();
    const { session } = await began(core);
    await assert.rejects(session.readAsset(path, "text"), { code: "ASSET_PATH_INVALID" });
    assert.equal(core.of("create_asset_download").length, 0);
  });
}

test("readAsset of an unknown type rejects INVALID_INPUT", async () => {
  const { session } = await began(new FakeCore());
  await assert.rejects(session.readAsset("/a", "bytes"), { code: "INVALID_INPUT" });
});

test("codes of the daemon about files reach the page as they are", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  for (const code of ["ASSET_NOT_FOUND", "ASSET_NOT_FILE", "ASSET_READ_TOO_LARGE"]) {
    core.refuse("create_asset_download", code);
    await assert.rejects(session.readAsset("/a", "text"), { code });
  }
});

test("a download that the server refuses, or that breaks, rejects", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  downloads(core, "");
  serve = () => ({ status: 404, body: JSON.stringify({ error: { code: "ASSET_READ_FAILED", message: "gone" } }) });
  await assert.rejects(session.readAsset("/a", "text"), { code: "ASSET_READ_FAILED", message: "gone" });
  core.answer("create_asset_download", () => ({ downloadUrl: "http://127.0.0.1:1/x", token: "t", name: "a", mimeType: "a/b", modifiedAt: 1 }));
  await assert.rejects(session.readAsset("/a", "text"), { code: "ASSET_READ_FAILED" });
});

test("a session that has ended has no files any more: SESSION_ENDED", async () => {
  const { session } = await began(new FakeCore());
  await session.end();
  for (const run of [() => session.uploadAsset(file()), () => session.listAssets(), () => session.readAsset("/a", "text")]) {
    await assert.rejects(run(), { code: "SESSION_ENDED" });
  }
});

test("a session that is ending answers for files as one that has ended", async () => {
  const core = new FakeCore();
  const { session } = await began(core);
  core.refuse("list_assets", "THREAD_ENDED");
  await assert.rejects(session.listAssets(), { code: "SESSION_ENDED" });
});
