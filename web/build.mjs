// build.mjs OUTPUT: script, style and page become one HTML file that loads nothing. `passing report` replaces
// @PASSING_DATA@ in it; the mark must be there exactly once.
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const output = process.argv[2];
if (!output) throw new Error("say where to write: node build.mjs OUTPUT");

const bundle = async (entry) => {
  const result = await build({
    entryPoints: [join(here, "src", entry)],
    bundle: true,
    minify: true,
    format: "iife",
    target: ["chrome100", "firefox100", "safari15.4"],
    charset: "utf8",
    legalComments: "none",
    write: false,
    metafile: true,
    logLevel: "warning",
  });
  return { text: result.outputFiles[0].text.trim(), inputs: Object.keys(result.metafile.inputs) };
};

// The licences of what is bundled ask to be passed on: each text once, with those who hold the copyright.
const notices = (inputs) => {
  const packages = new Set(inputs.map((path) => /(?:^|\/)node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]).filter(Boolean));
  const texts = new Map();
  for (const name of [...packages].sort()) {
    const root = join(here, "node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    const file = readdirSync(root).find((each) => /^licen[cs]e/i.test(each));
    if (!file) throw new Error(`${name} comes without a licence`);
    const lines = readFileSync(join(root, file), "utf8").split("\n").map((line) => line.trim());
    const holders = lines.filter((line) => /^copyright \(?[c\d]/i.test(line));
    const body = lines.filter((line) => line && !holders.includes(line)).join(" ");
    texts.set(body, [...(texts.get(body) ?? []), `${name} ${version} (${license}): ${holders.join("; ")}`]);
  }
  return [...texts].map(([body, users]) => `${users.join("\n")}\n\n${body}`).join("\n\n").replaceAll("--", "- -");
};

const { text: script, inputs } = await bundle("main.ts");
const { text: style } = await bundle("style/page.css");
if (/<\/(script|style)/i.test(script + style)) throw new Error("the bundle would end its own element");
const hash = createHash("sha256").update(script).digest("base64");

// A function as the replacement: "$&" in the bundle must stay as it is.
const put = (page, mark, text) => {
  if (page.split(mark).length !== 2) throw new Error(`${mark} must be in page.html once`);
  return page.replace(mark, () => text);
};
let page = readFileSync(join(here, "src/page.html"), "utf8");
page = put(page, "@SCRIPT_HASH@", `sha256-${hash}`);
page = put(page, "@STYLE@", style);
page = put(page, "@SCRIPT@", script);
page = put(page, "@NOTICES@", notices(inputs));
if (page.split("@PASSING_DATA@").length !== 2) throw new Error("@PASSING_DATA@ must be in page.html once");
mkdirSync(dirname(output), { recursive: true });
writeFileSync(output, page);
