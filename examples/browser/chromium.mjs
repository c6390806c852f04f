// A headless Chromium that starts with nothing kept of earlier visits.

import { mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

const { chromium } = createRequire(import.meta.url)("playwright-core");
const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];

// Gives what `use` gives of the browser, whose profile is removed after it.
export async function inChromium(executablePath, use) {
  const profile = await mkdtemp(join(tmpdir(), "chromium-"));
  try {
    const browser = await chromium.launchPersistentContext(profile, { executablePath, args: FLAGS });
    try {
      return await use(browser);
    } finally {
      await browser.close();
    }
  } finally {
    await rm(profile, { recursive: true, force: true });
  }
}
