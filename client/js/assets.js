// Files travel beside the WebSocket, over HTTP, with a ticket that names the
// address and a token.

import { PedelecError, wireError } from "./errors.js";

export const maxAssetBytes = 104_857_600;

// checkPath holds a public path to the rules of the assets folder.
export function checkPath(path) {
  const ok =
    typeof path === "string" &&
    path.startsWith("/") &&
    !/[\\\u0000-\u001f\u007f]/.test(path) &&
    path.slice(1).split("/").every((part) => part !== "" && part !== "." && part !== "..");
  if (!ok) throw new PedelecError("ASSET_PATH_INVALID", "A path of an asset looks like /results/report.json.", { path });
}

export function protocolError(message, details) {
  return new PedelecError("SDK_PROTOCOL_ERROR", message, details);
}

// readList checks a listing as a whole: one odd entry spoils it.
export function readList(result) {
  const ok = (a) =>
    typeof a?.name === "string" && typeof a.path === "string" && a.path.startsWith("/") &&
    Number.isFinite(a.sizeBytes) && Number.isFinite(a.modifiedAt);
  if (!Array.isArray(result?.assets) || !result.assets.every(ok)) {
    throw protocolError("The list of assets cannot be read.");
  }
  return result.assets.map(({ name, path, sizeBytes, modifiedAt }) => ({ name, path, sizeBytes, modifiedAt }));
}

// put sends a file and resolves with the path under which it is kept.
export async function put(ticket, file, wanted, onProgress) {
  if (typeof ticket?.uploadUrl !== "string" || typeof ticket.token !== "string") {
    throw protocolError("The upload ticket cannot be read.");
  }
  const headers = { Authorization: `Bearer ${ticket.token}`, "Content-Type": file.type || "application/octet-stream" };
  const send = onProgress && typeof XMLHttpRequest === "function" ? putWatched : putQuietly;
  const { status, text } = await send(ticket.uploadUrl, headers, file, onProgress);
  const body = parsed(text);
  if (status < 200 || status > 299) throw wireError(body?.error, "ASSET_UPLOAD_FAILED");
  if (typeof body?.path !== "string" || !body.path.startsWith("/") || (wanted !== undefined && body.path !== wanted)) {
    throw protocolError("The answer to an upload names no valid path.", { path: body?.path });
  }
  return body.path;
}

async function putQuietly(url, headers, file, onProgress) {
  try {
    const answer = await fetch(url, { method: "PUT", headers, body: file, credentials: "omit" });
    const text = await answer.text();
    onProgress?.(file.size, file.size);
    return { status: answer.status, text };
  } catch (error) {
    throw new PedelecError("ASSET_UPLOAD_FAILED", `The upload failed: ${error.message}`);
  }
}

// putWatched uses the older interface: fetch does not tell how far it is.
function putWatched(url, headers, file, onProgress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", url);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => onProgress(event.loaded, file.size);
    request.onload = () => resolve({ status: request.status, text: request.responseText });
    request.onerror = request.onabort = () => reject(new PedelecError("ASSET_UPLOAD_FAILED", "The upload failed."));
    request.send(file);
  });
}

// get fetches what a ticket names and gives it the form that was asked for.
export async function get(ticket, type, onProgress) {
  const ok =
    typeof ticket?.downloadUrl === "string" && typeof ticket.token === "string" && typeof ticket.name === "string" &&
    typeof ticket.mimeType === "string" && Number.isFinite(ticket.modifiedAt);
  if (!ok) throw protocolError("The download ticket cannot be read.");
  let answer, bytes;
  try {
    answer = await fetch(ticket.downloadUrl, { headers: { Authorization: `Bearer ${ticket.token}` }, credentials: "omit" });
    bytes = await read(answer, ticket.sizeBytes, answer.ok ? onProgress : undefined);
  } catch (error) {
    throw new PedelecError("ASSET_READ_FAILED", `The download failed: ${error.message}`);
  }
  if (!answer.ok) throw wireError(parsed(new TextDecoder().decode(bytes))?.error, "ASSET_READ_FAILED");
  switch (type) {
    case "blob":
      return new Blob([bytes], { type: ticket.mimeType });
    case "file":
      return new File([bytes], ticket.name, { type: ticket.mimeType, lastModified: ticket.modifiedAt });
    case "json":
      return json(strictText(bytes));
    default:
      return strictText(bytes);
  }
}

async function read(answer, total, onProgress) {
  if (!onProgress || !answer.body) return new Uint8Array(await answer.arrayBuffer());
  const parts = [];
  let loaded = 0;
  for (const reader = answer.body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    loaded += value.length;
    onProgress(loaded, total);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

function strictText(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new PedelecError("ASSET_TEXT_DECODE_FAILED", "The file is no valid UTF-8 text.");
  }
}

function json(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new PedelecError("ASSET_INVALID_JSON", `The file is no valid JSON: ${error.message}`);
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
