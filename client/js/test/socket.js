// A WebSocket client of few lines, for runtimes that have none. It sets the
// Origin of a page, which the global one does not let a program do.

import { createHash, randomBytes } from "node:crypto";
import { connect } from "node:net";

export function socketOf(origin) {
  return class {
    #socket;
    #buffer = Buffer.alloc(0);
    #open = false;
    #parts = [];

    constructor(url, protocols = []) {
      const { hostname, port, host, pathname } = new URL(url);
      const key = randomBytes(16).toString("base64");
      this.#socket = connect(Number(port), hostname, () => {
        this.#socket.write(
          `GET ${pathname} HTTP/1.1\r\nHost: ${host}\r\nOrigin: ${origin}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
            `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${key}\r\nSec-WebSocket-Protocol: ${protocols.join(", ")}\r\n\r\n`,
        );
      });
      const accept = createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
      this.#socket.on("data", (chunk) => this.#read(chunk, accept));
      this.#socket.on("error", () => {});
      this.#socket.on("close", () => this.onclose?.({ code: this.closeCode ?? 1006 }));
    }

    send(text) {
      this.#write(0x1, Buffer.from(text));
    }

    close(code = 1000) {
      if (this.#open) this.#write(0x8, Buffer.from([code >> 8, code & 0xff]));
      this.#socket.end();
    }

    #write(kind, payload) {
      const mask = randomBytes(4);
      const length = payload.length;
      const head =
        length < 126 ? Buffer.from([0x80 | kind, 0x80 | length])
        : length < 65536 ? Buffer.from([0x80 | kind, 0xfe, length >> 8, length & 0xff])
        : Buffer.concat([Buffer.from([0x80 | kind, 0xff, 0, 0, 0, 0]), Buffer.from(Uint32Array.of(length).buffer).swap32()]);
      this.#socket.write(Buffer.concat([head, mask, payload.map((byte, i) => byte ^ mask[i % 4])]));
    }

    #read(chunk, accept) {
      this.#buffer = Buffer.concat([this.#buffer, chunk]);
      if (!this.#open) {
        const end = this.#buffer.indexOf("\r\n\r\n");
        if (end < 0) return;
        const head = this.#buffer.subarray(0, end).toString();
        this.#buffer = this.#buffer.subarray(end + 4);
        if (!head.startsWith("HTTP/1.1 101") || !head.includes(accept)) {
          this.#socket.destroy();
          return;
        }
        this.#open = true;
        this.onopen?.({});
      }
      for (let frame; (frame = this.#frame()); ) this.#take(frame);
    }

    #frame() {
      const b = this.#buffer;
      if (b.length < 2) return undefined;
      const [at, length] = { 126: () => [4, b.length >= 4 && b.readUInt16BE(2)], 127: () => [10, b.length >= 10 && Number(b.readBigUInt64BE(2))] }[b[1]]?.() ?? [2, b[1]];
      if (length === false || b.length < at + length) return undefined;
      this.#buffer = b.subarray(at + length);
      return { final: (b[0] & 0x80) !== 0, kind: b[0] & 0xf, payload: b.subarray(at, at + length) };
    }

    #take({ final, kind, payload }) {
      if (kind === 0x9) this.#write(0xa, payload);
      if (kind === 0x8) {
        this.closeCode = payload.length >= 2 ? payload.readUInt16BE(0) : 1005;
        this.#socket.end();
      }
      if (kind > 0x2) return;
      this.#parts.push(payload);
      if (!final) return;
      const data = Buffer.concat(this.#parts).toString();
      this.#parts = [];
      this.onmessage?.({ data });
    }
  };
}
