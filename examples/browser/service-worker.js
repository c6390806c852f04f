// Keeps what the page fetched: the page, the runtime and the model come from this cache, and from the network only once. Another name of the
// cache makes every visitor fetch all of it again: change it with the model.

const CACHE = "student-1";
const PAGE = ["./", "index.html", "page.js"];

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(PAGE)));
  self.skipWaiting();
});

self.addEventListener("activate", (event) => {
  const forget = async () => {
    for (const name of await caches.keys()) if (name !== CACHE) await caches.delete(name);
    await self.clients.claim();
  };
  event.waitUntil(forget());
});

self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET" || new URL(request.url).origin !== location.origin) return;
  const answer = async () => {
    const cache = await caches.open(CACHE);
    const kept = await cache.match(request, { ignoreSearch: request.mode === "navigate" });
    if (kept) return kept;
    const response = await fetch(request);
    if (response.status === 200) await cache.put(request, response.clone());
    return response;
  };
  event.respondWith(answer());
});
