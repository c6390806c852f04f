// Keeps what the page fetched: the page, the runtime and the model come from this cache, and from the network only once. Another name of the
// cache makes every visitor fetch all of it again: change it with the model. Where a visitor's disk has no room, all comes from the network.

const CACHE = "student-1";
const PAGE = ["./", "index.html", "page.js"];

const noRoom = (error) => console.warn(`nothing is kept for later visits: ${error.message}`);

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(PAGE)).catch(noRoom));
  self.skipWaiting();
});

self.addEventListener("activate", (event) => {
  const forget = async () => {
    for (const name of await caches.keys()) if (name !== CACHE) await caches.delete(name);
  };
  event.waitUntil(forget().catch(noRoom).then(() => self.clients.claim()));
});

self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET" || new URL(request.url).origin !== location.origin) return;
  const answer = async () => {
    const cache = await caches.open(CACHE).catch(noRoom);
    const kept = await cache?.match(request, { ignoreSearch: request.mode === "navigate" });
    if (kept) return kept;
    const response = await fetch(request);
    if (response.status === 200) await cache?.put(request, response.clone()).catch(noRoom);
    return response;
  };
  event.respondWith(answer());
});
