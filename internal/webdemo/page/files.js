// Files of the session: upload, list, download, each with its progress.

import { $, onPress } from "/page/controls.js";

export class Files {
  #session = () => null;
  #fail;

  constructor(session, fail) {
    this.#session = session;
    this.#fail = fail;
    onPress("upload", () => this.#run(() => this.#upload()));
    onPress("refresh", () => this.#run(() => this.list()));
  }

  async list() {
    const assets = await this.#session().listAssets();
    $("files").replaceChildren(...assets.map((asset) => this.#row(asset)));
    $("files-note").textContent = assets.length === 0 ? "No files yet." : `${assets.length} ${assets.length === 1 ? "file" : "files"}.`;
  }

  clear() {
    $("files").replaceChildren();
    $("files-note").textContent = "";
  }

  #row(asset) {
    const row = document.createElement("li");
    const name = document.createElement("span");
    const size = document.createElement("small");
    const button = document.createElement("button");
    name.textContent = asset.path;
    size.textContent = `${bytes(asset.sizeBytes)}, ${new Date(asset.modifiedAt).toLocaleTimeString()}`;
    name.append(size);
    button.type = "button";
    button.textContent = "Download";
    button.setAttribute("aria-label", `Download ${asset.path}`);
    button.onclick = () => button.getAttribute("aria-disabled") !== "true" && this.#run(() => this.#download(asset));
    row.append(name, button);
    return row;
  }

  async #upload() {
    const file = $("file").files[0];
    if (!file) {
      $("files-note").textContent = "Choose a file first.";
      $("file").focus();
      return;
    }
    const path = await this.#watched(`Upload of ${file.name}`, (onProgress) => this.#session().uploadAsset(file, undefined, { onProgress }));
    $("file").value = "";
    await this.list();
    $("files-note").textContent = `Uploaded as ${path}.`;
  }

  async #download(asset) {
    const file = await this.#watched(`Download of ${asset.name}`, (onProgress) => this.#session().readAsset(asset.path, "file", { onProgress }));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(file);
    link.download = file.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // the browser has read it by then
    $("files-note").textContent = `Downloaded ${asset.path}, ${bytes(file.size)}.`;
  }

  async #watched(label, transfer) {
    $("progress-label").textContent = label;
    $("progress").value = 0;
    $("transfer").hidden = false;
    try {
      return await transfer((loaded, total) => {
        $("progress").value = total > 0 ? (100 * loaded) / total : 100;
      });
    } finally {
      $("transfer").hidden = true;
    }
  }

  async #run(job) {
    try {
      await job();
    } catch (error) {
      this.#fail(error);
    }
  }
}

function bytes(n) {
  if (n < 1024) return `${n} bytes`;
  if (n < 1024 * 1024) return `${(n / 1024).toFixed(1)} KiB`;
  return `${(n / 1024 / 1024).toFixed(1)} MiB`;
}
