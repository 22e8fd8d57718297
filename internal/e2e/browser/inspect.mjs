// Looks at a daemon on the page of `pedelec-core inspect`, in a headless Chromium, and
// checks what is seen. It ends with status 1 at the first step that is not as it
// should be.
//
//	node inspect.mjs CHROMIUM FOLDER LINK PENDING IDLE
//
// CHROMIUM is the browser's program, FOLDER an empty folder for the browser's profile
// and the pictures, LINK the link of one use, PENDING a thread that waits for the
// result of a tool, IDLE one that does not. A line "now: WORD" on standard output asks
// whoever started this to do it: to answer the tool.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const [browserProgram, folder, link, pending, idle] = process.argv.slice(2);

let pictures = 0;
let context, page;

async function step(title, job) {
  const began = Date.now();
  await job();
  console.log(`${title} (${Date.now() - began} ms)`);
}

async function picture(name) {
  await page.screenshot({ path: join(folder, `inspect-${++pictures}-${name}.png`), fullPage: true });
}

const events = () => page.getByRole('log', { name: 'Events' });
const rows = () => page.locator('#threads tr');
const problems = [];

try {
  context = await chromium.launchPersistentContext(join(folder, 'profile'), {
    executablePath: browserProgram, headless: true, viewport: { width: 1180, height: 900 },
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  });
  context.setDefaultTimeout(20_000);
  page = await context.newPage();
  const outside = [];
  page.on('pageerror', (error) => problems.push(`error in the page: ${error}`));
  page.on('console', (message) => {
    if (message.type() === 'error' && /Content Security Policy/.test(message.text())) problems.push(message.text());
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(new URL(link).origin)) outside.push(request.url());
  });

  await step('without a link there is nothing to see', async () => {
    await page.goto(new URL('/inspect/', link).href);
    await page.getByRole('heading', { name: 'This page needs a fresh link' }).waitFor();
    await picture('gate');
  });
  await step('the link lets the browser in, and its code leaves the address', async () => {
    await page.goto('about:blank');
    await page.goto(link);
    await page.getByText('Connected').waitFor();
    assert.equal(new URL(page.url()).hash, '');
    await rows().nth(1).waitFor();
    assert.equal(await rows().count(), 2);
    assert.equal(await page.evaluate(() => document.cookie), '', 'scripts do not see the cookie');
    assert.match(await page.locator('#runtimes').textContent(), /opencode.*MiB/);
    await picture('threads');
  });
  await step('reloaded, it is still let in', async () => {
    await page.reload();
    await page.getByText('Connected').waitFor();
  });
  await step('threads are filtered by their status', async () => {
    await page.getByLabel('Status').selectOption('waitingToolResult');
    await page.waitForFunction(() => document.querySelectorAll('#threads tr').length === 1);
    await rows().filter({ hasText: pending }).waitFor();
    await page.getByLabel('Status').selectOption('ended');
    await page.getByText('There are none.').waitFor();
    await page.getByLabel('Status').selectOption('');
    await rows().filter({ hasText: idle }).waitFor();
  });
  await step('a thread shows its events and the tool request that waits', async () => {
    await page.getByRole('button', { name: pending }).press('Enter');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'detail-title');
    await page.getByRole('group', { name: 'Waits for a tool result' }).getByText('add').first().waitFor();
    await events().getByText('tool_call').waitFor();
    await picture('pending');
  });
  await step('paused, the list stands still', async () => {
    const pause = page.getByRole('button', { name: 'Pause' });
    await pause.press('Space');
    assert.equal(await pause.getAttribute('aria-pressed'), 'true');
    console.log('now: answer');
    await page.getByText(/Paused\. [1-9]\d* new\./).waitFor();
    assert.equal(await events().getByText('operation_completed').count(), 0);
    await picture('paused');
    await pause.press('Space');
    await events().getByText('operation_completed').waitFor();
    await page.getByRole('group', { name: 'Waits for a tool result' }).waitFor({ state: 'hidden' });
    await picture('answered');
  });
  await step('another thread takes its place', async () => {
    await page.getByRole('button', { name: idle }).click();
    await events().getByText('hello there').first().waitFor();
    assert.equal(await events().getByText('tool_call').count(), 0);
    await page.emulateMedia({ colorScheme: 'dark' });
    await picture('dark');
    await page.setViewportSize({ width: 390, height: 800 });
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'it does not scroll sideways');
    await picture('narrow');
    await page.setViewportSize({ width: 1180, height: 900 });
    await page.emulateMedia({ colorScheme: 'light' });
  });
  await step('every control has a name and shows its focus', async () => {
    const nameless = await page.evaluate(() => [...document.querySelectorAll('button, select, [tabindex="0"]')]
      .filter((n) => !(n.labels?.length || n.textContent.trim() || n.getAttribute('aria-label') || n.getAttribute('aria-labelledby'))).map((n) => n.id));
    assert.deepEqual(nameless, []);
    await page.locator('.skip').focus();
    for (const wanted of ['status', 'more', 'pause', 'leave', 'events']) {
      if (!(await page.locator(`#${wanted}`).isVisible())) continue;
      for (let i = 0; i < 12 && (await page.evaluate(() => document.activeElement.id)) !== wanted; i++) await page.keyboard.press('Tab');
      assert.equal(await page.evaluate(() => document.activeElement.id), wanted);
      assert.notEqual(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), 'none', wanted);
    }
  });
  await step('the link is good once', async () => {
    await context.clearCookies();
    const second = await context.newPage();
    await second.goto(link);
    await second.getByText('This link was used, or its minute is over.').waitFor();
    await second.close();
  });
  await step('without its session the page says what to do', async () => {
    await page.getByRole('heading', { name: 'This page needs a fresh link' }).waitFor();
    assert.equal(await page.locator('#desk').isVisible(), false);
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
}
