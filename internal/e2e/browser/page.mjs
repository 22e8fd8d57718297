// Uses the page of `pedelec-core demo --web` in a headless Chromium as a person would,
// step by step, and checks what is seen. It ends with status 1 at the first step that
// is not as it should be.
//
//	node page.mjs PROGRAM CHROMIUM FOLDER
//
// PROGRAM is pedelec-core, CHROMIUM the browser's program, FOLDER an empty folder for
// the browser's profile and a picture of every state.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { createServer } from 'node:http';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';

const [program, browserProgram, folder] = process.argv.slice(2);
const run = promisify(execFile);
const patienceMs = 20_000;

let pictures = 0;
let context, page;

// startDemo resolves with the page's address and the command that approves it.
async function startDemo() {
  const child = spawn(program, ['demo', '--web'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const gone = new Promise((resolve) => child.on('exit', (code, signal) => resolve({ code, signal })));
  const lines = createInterface({ input: child.stdout });
  const found = await new Promise((resolve, reject) => {
    const seen = {};
    gone.then((end) => reject(new Error(`the demo left: ${JSON.stringify(end)}`)));
    lines.on('line', (line) => {
      seen.url ??= /http:\/\/127\.0\.0\.1:\d+/.exec(line)?.[0];
      if (line.includes('origins approve')) seen.approve = line.trim();
      if (seen.approve) resolve(seen);
    });
  });
  return { ...found, child, gone };
}

async function step(title, job) {
  const began = Date.now();
  await job();
  console.log(`${title} (${Date.now() - began} ms)`);
}

async function picture(name) {
  await page.screenshot({ path: join(folder, `${String(++pictures).padStart(2, '0')}-${name}.png`), fullPage: true });
}

const state = (text) => page.waitForFunction((t) => document.getElementById('state-text').textContent.startsWith(t), text);
const said = (text) => page.locator('#log .turn', { hasText: text }).last().waitFor();
const press = (name) => page.getByRole('button', { name, exact: true }).click();
const rows = () => page.locator('#files li');

async function say(text) {
  await page.getByLabel('Message').fill(text);
  await page.keyboard.press('Enter');
}

// contrast finds texts that are hard to read: under 4.5 to 1 on their ground.
function contrast() {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgb = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ground = (node) => {
    for (let n = node; n; n = n.parentElement) {
      const color = rgb(getComputedStyle(n).backgroundColor);
      if (color[3] > 250) return color;
    }
    return [255, 255, 255];
  };
  const bad = [];
  for (const node of document.querySelectorAll('body *')) {
    const own = [...node.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !node.checkVisibility() || node.closest('[aria-disabled="true"], :disabled')) continue;
    const [a, b] = [light(rgb(getComputedStyle(node).color)), light(ground(node))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) bad.push(`${node.tagName} ${node.textContent.trim().slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return bad;
}

const demo = await startDemo();
const home = /--home (\S+)/.exec(demo.approve)[1];
const daemonPid = async () => JSON.parse(await readFile(join(home, 'runtime.json'), 'utf8')).pid;
const problems = [];

try {
  context = await chromium.launchPersistentContext(join(folder, 'profile'), {
    executablePath: browserProgram, headless: true, viewport: { width: 1180, height: 900 }, acceptDownloads: true,
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  });
  context.setDefaultTimeout(patienceMs);
  page = await context.newPage();
  page.on('pageerror', (error) => problems.push(`error in the page: ${error}`));
  page.on('console', (message) => {
    if (message.type() === 'error' && /Content Security Policy/.test(message.text())) problems.push(message.text());
  });
  const outside = [];
  page.on('request', (request) => {
    if (!/^(http|ws):\/\/127\.0\.0\.1:|^(blob|data):/.test(request.url())) outside.push(request.url());
  });

  await step('the page asks to be approved, with the exact command', async () => {
    await page.goto(demo.url);
    await page.getByRole('heading', { name: 'May this page use your agents?' }).waitFor();
    assert.equal(await page.locator('#gate-command').textContent(), demo.approve);
    await state('Waiting for your approval');
    await picture('approval');
  });
  await step('refused, it says so; asked again and approved, it goes on', async () => {
    await run(program, ['--home', home, 'origins', 'reject', demo.url]);
    await page.getByText('You have refused this page').waitFor();
    await state('Refused by you');
    await picture('refused');
    await run('/bin/sh', ['-c', demo.approve]);
    await press('Ask again');
    await state('Connected');
    assert.equal(await page.locator('#gate').isVisible(), false);
    await picture('connected');
  });
  await step('a turn is streamed, from the keyboard', async () => {
    await say('stream 40 every 40ms of 4');
    await page.locator('#live').getByText('10').waitFor();
    await state('The agent is working');
    await picture('streaming');
    await state('Ready');
    await said('39');
    assert.match(await page.locator('#usage').textContent(), /tokens so far/);
    await picture('answer');
  });
  await step('a turn is stopped', async () => {
    await say('stream 2000 every 20ms');
    await page.locator('#live').getByText('5').waitFor();
    await press('Stop');
    await said('OPERATION_CANCELLED');
    await state('Ready');
  });
  await step('a turn that fails says why, and the session comes back by a preparation', async () => {
    await press('Fail');
    await said('The agent gave up.');
    await state('The last turn failed');
    await picture('failed');
    await press('Prepare');
    await said('The agent is ready.');
    await state('Ready');
  });
  await step('the agent paints the wall, when the user lets it', async () => {
    await press('Paint the wall teal');
    await page.getByText('The agent wants to paint the wall teal.').waitFor();
    await state('The agent waits for this page');
    await picture('asks');
    await page.getByRole('button', { name: 'Paint it' }).press('Enter');
    await page.getByRole('img', { name: 'The wall is teal' }).waitFor();
    await state('Ready');
    await picture('painted');
  });
  await step('the user refuses, and the agent learns it', async () => {
    await say('call paint {"color":"red"}');
    await press('Refuse');
    await said('The user refused.');
    await state('Ready');
    await page.getByRole('img', { name: 'The wall is teal' }).waitFor();
  });
  await step('no color: the agent gets an error', async () => {
    await say('call paint {"color":"loud"}');
    await said('is no color');
    await state('Ready');
  });
  await step('reloaded in the middle of a tool call, the page answers it', async () => {
    await say('call paint {"color":"gold"}');
    await page.getByText('wall gold.').waitFor();
    await page.reload();
    await page.getByText('The agent wants to paint the wall gold.').waitFor();
    await state('The agent waits for this page');
    await picture('reloaded');
    await press('Paint it');
    await page.getByRole('img', { name: 'The wall is gold' }).waitFor();
    await said('{"painted":true,"color":"gold"}');
    await state('Ready');
  });
  await step('what was said while the page was away is there after it', async () => {
    await say('wait 300ms ; message said meanwhile');
    await state('The agent is working');
    await page.goto('about:blank');
    await page.goto(demo.url);
    await said('said meanwhile');
    await state('Ready');
  });
  await step('a file goes up, the agent writes one, both come down', async () => {
    const file = join(folder, 'large.bin');
    await writeFile(file, Buffer.alloc(96 << 20, 'pedelec '));
    await page.getByLabel('File to upload').setInputFiles(file);
    const moved = page.evaluate(() => new Promise((resolve) => {
      const seen = new Set();
      const bar = document.getElementById('progress');
      new MutationObserver(() => {
        if (bar.value > 0) seen.add(bar.value);
        if (document.getElementById('transfer').hidden) resolve(seen.size);
      }).observe(document.getElementById('transfer'), { attributes: true, subtree: true });
    }));
    await press('Upload');
    await page.getByText('Uploaded as /upl_').waitFor();
    assert.ok((await moved) > 1, 'the progress of the upload moves');
    await press('Write a file');
    await rows().filter({ hasText: '/hello.txt' }).waitFor();
    await picture('files');
    const [small] = await Promise.all([page.waitForEvent('download'), press('Download /hello.txt')]);
    assert.equal((await readFile(await small.path(), 'utf8')).trim(), 'Hello from the agent.');
    const name = await rows().filter({ hasText: 'large.bin' }).locator('button').getAttribute('aria-label');
    const [large] = await Promise.all([page.waitForEvent('download'), press(name)]);
    assert.deepEqual(await readFile(await large.path()), await readFile(file));
  });
  await step('the session is ended and resumed', async () => {
    await press('End');
    await state('Session ended');
    await picture('ended');
    await press('Resume');
    await said('The session goes on.');
    await press('Who are you?');
    await said('session=');
    await state('Ready');
  });
  await step('kill -9 of the daemon in a turn: the promise rejects, the status is right, the next send works', async () => {
    await say('stream 2000 every 20ms');
    await page.locator('#live').getByText('5').waitFor();
    const before = await daemonPid();
    const lost = state('Connection lost');
    process.kill(before, 'SIGKILL');
    await lost;
    await picture('lost');
    await said('The answer was cut off.');
    await said('Attached to the session again.');
    await state('Ready');
    assert.notEqual(await daemonPid(), before);
    await say('message works again');
    await said('works again');
    await state('Ready');
    await picture('recovered');
  });
  await step('a page of a foreign origin is refused', async () => {
    const site = createServer((_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<title>a page</title>'));
    await new Promise((resolve) => site.listen(0, '127.0.0.1', resolve));
    const stranger = await context.newPage();
    await stranger.goto(`http://127.0.0.1:${site.address().port}`);
    const { httpEndpoint } = JSON.parse(await readFile(join(home, 'runtime.json'), 'utf8'));
    const answers = await stranger.evaluate((endpoint) => new Promise((resolve, reject) => {
      const socket = new WebSocket(`ws://${endpoint}/v1/ipc`);
      const codes = [];
      socket.onerror = () => reject(new Error('no connection'));
      socket.onmessage = ({ data }) => {
        const answer = JSON.parse(data);
        codes.push(answer.ok ? 'ok' : answer.error.code);
        if (codes.length === 3) resolve(codes.sort());
      };
      socket.onopen = () => ['ping', 'list_providers', 'list_threads'].forEach((type, i) => socket.send(JSON.stringify({ requestId: String(i), type })));
    }), httpEndpoint);
    assert.deepEqual(answers, ['ORIGIN_NOT_APPROVED', 'ORIGIN_NOT_APPROVED', 'ok']);
    const config = await stranger.evaluate((url) => fetch(url).then(() => 'read', () => 'refused'), `${demo.url}/config.json`);
    assert.equal(config, 'refused');
    await stranger.close();
    site.closeAllConnections();
    site.close();
  });
  await step('a revoked page loses its connection and asks again', async () => {
    await run(program, ['--home', home, 'origins', 'revoke', demo.url]);
    await page.getByRole('heading', { name: 'May this page use your agents?' }).waitFor();
    await run('/bin/sh', ['-c', demo.approve]);
    await state('Ready');
  });
  await step('every control has a name and is reached by Tab in the order of the page', async () => {
    await page.evaluate(() => document.body.focus());
    await page.locator('.skip').focus();
    const order = [];
    for (let i = 0; i < 40; i++) {
      const name = await page.evaluate(() => {
        const node = document.activeElement;
        return node === document.body ? null : [node.id || node.className || node.textContent, node.getBoundingClientRect().top];
      });
      if (!name || (i > 0 && name[0] === order[0])) break;
      order.push(name[0]);
      const ring = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
      assert.notEqual(ring, 'none', `${name[0]} shows its focus`);
      await page.keyboard.press('Tab');
    }
    const wanted = ['skip', 'log', 'Count', 'text', 'send', 'provider', 'create', 'prepare', 'end', 'resume', 'ask', 'file', 'upload', 'refresh'];
    assert.deepEqual(order.filter((id) => wanted.includes(id)), wanted);
    const nameless = await page.evaluate(() => [...document.querySelectorAll('button, input, select, textarea, progress')]
      .filter((n) => !(n.labels?.length || n.textContent.trim() || n.getAttribute('aria-label'))).map((n) => n.id));
    assert.deepEqual(nameless, []);
  });
  await step('light and dark, wide and narrow, it is easy to read', async () => {
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      await picture(colorScheme);
      assert.deepEqual(await page.evaluate(contrast), [], colorScheme);
    }
    await page.setViewportSize({ width: 390, height: 800 });
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'it does not scroll sideways');
    await picture('narrow');
  });
  assert.deepEqual(problems, []);
  assert.deepEqual(outside, [], 'nothing is loaded from elsewhere');
} catch (error) {
  console.error(error);
  console.error(problems);
  if (page) await picture('failure').catch(() => {});
  process.exitCode = 1;
} finally {
  await context?.close();
  demo.child.kill('SIGINT');
  const end = await demo.gone;
  if (end.code !== 0) {
    console.error(`the demo ended with ${JSON.stringify(end)}`);
    process.exitCode = 1;
  }
}
