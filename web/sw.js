// Keeps the files of the page, so that it works without a network after one visit. Nothing else is kept.

const NAME = "VERSION";
const FILES = "FILES";

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(NAME).then((cache) => cache.addAll(FILES)).then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => {
  const isOld = (name) => name.startsWith("gguf-viewer-") && name !== NAME;
  const clear = caches.keys().then((names) => Promise.all(names.filter(isOld).map((name) => caches.delete(name))));
  event.waitUntil(clear.then(() => self.clients.claim()));
});

self.addEventListener("fetch", (event) => {
  const scope = new URL("./", self.location);
  const url = new URL(event.request.url);
  const isOwn = url.origin === scope.origin && FILES.some((name) => new URL(name, scope).pathname === url.pathname);
  if (event.request.method !== "GET" || !isOwn) return;
  const kept = () => caches.open(NAME).then((cache) => cache.match(event.request, { ignoreSearch: true }));
  event.respondWith(kept().then((found) => found ?? fetch(event.request)));
});
