// Serves this folder on a free port of this machine, with other folders under names of their own, and keeps what it was asked for.

import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm" };

// mounts: {"/models/student/": folder}. Gives {origin, requests: [{path, bytes}], close}.
export async function servePage(mounts = {}) {
  const requests = [];

  function place(path) {
    const mount = Object.keys(mounts).find((prefix) => path.startsWith(prefix));
    if (mount) return join(mounts[mount], path.slice(mount.length));
    return join(HERE, path.endsWith("/") ? `${path}index.html` : path);
  }

  const server = createServer(async (request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, "http://page").pathname));
    const file = place(path);
    const facts = await stat(file).catch(() => null);
    const found = facts?.isFile() ?? false;
    requests.push({ path, bytes: found ? facts.size : 0 });
    if (!found) return response.writeHead(404).end();
    response.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream", "content-length": facts.size });
    createReadStream(file).pipe(response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));

  async function close() {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
  return { origin: `http://127.0.0.1:${server.address().port}`, requests, close };
}
