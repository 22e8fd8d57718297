// Drives a headless Chromium for the browser test: it opens a page of the origin
// that a request names, lets that page make one fetch, and tells what the page saw.
//
// Requests and answers are JSON, one a line, on standard input and output. The
// first line of input is {"program", "profile"}: the browser's program and an empty
// folder for its profile. Every other line is
//
//	{"page", "url", "method", "headers"?, "size"?, "text"?, "mode"?}
//
// where page is the address of the page, size the length of a body of random
// bytes, and text a body as it is. The answer is {"status", "text"?, "headers",
// "size", "sent"?, "received"} with the SHA-256 of both bodies as hex, or {"failed"}
// with what fetch threw. It ends when its input does.
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';

// fetchInPage runs inside the page.
async function fetchInPage(request) {
  const hex = async (bytes) => {
    const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
    return [...digest].map((b) => b.toString(16).padStart(2, '0')).join('');
  };
  const maxRandom = 65536; // bytes that the browser gives at once
  const maxText = 4096;
  let body = request.text;
  let sent;
  if (request.size !== undefined) {
    const bytes = new Uint8Array(request.size);
    for (let at = 0; at < bytes.length; at += maxRandom) {
      crypto.getRandomValues(bytes.subarray(at, at + maxRandom));
    }
    sent = await hex(bytes);
    body = new Blob([bytes]); // as a file is; other bodies are copied to whoever drives the browser
  }
  try {
    const response = await fetch(request.url, {
      method: request.method, headers: request.headers ?? {}, body, mode: request.mode ?? 'cors', cache: 'no-store',
    });
    const bytes = await response.arrayBuffer();
    const text = bytes.byteLength <= maxText ? new TextDecoder().decode(bytes) : undefined;
    return {
      status: response.status, headers: Object.fromEntries(response.headers), size: bytes.byteLength, text, sent,
      received: await hex(bytes),
    };
  } catch (error) {
    return { failed: String(error) };
  }
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const { program, profile } = JSON.parse((await lines.next()).value);
const context = await chromium.launchPersistentContext(profile, {
  executablePath: program,
  headless: true,
  args: [
    '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
    '--disable-background-networking', '--disable-component-update', '--disable-sync',
  ],
});
try {
  console.log(JSON.stringify({ version: context.browser()?.version() ?? '' }));
  const pages = new Map();
  for (let line = await lines.next(); !line.done; line = await lines.next()) {
    const request = JSON.parse(line.value);
    if (!pages.has(request.page)) {
      const page = await context.newPage();
      await page.goto(request.page);
      pages.set(request.page, page);
    }
    console.log(JSON.stringify(await pages.get(request.page).evaluate(fetchInPage, request)));
  }
} finally {
  await context.close();
}
