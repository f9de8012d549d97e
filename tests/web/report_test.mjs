// The report in a browser: every chart drawn, every number as in the files, nothing loaded, nothing executed.
//   PASSING=build/release/passing node tests/web/report_test.mjs
// Ends with 77, which CTest takes for skipped, where there is no Chromium; in CI that is a failure.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { allStrategies, dataplanes, day, sample, simulation, training } from "./sample.mjs";

const passing = process.env.PASSING ?? "build/release/passing";
const skip = (reason) => {
  console.log(`${process.env.CI ? "FAILED" : "skipped"}: ${reason}`);
  process.exit(process.env.CI ? 1 : 77);
};
const browserPath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
if (!browserPath) skip("chromium is not installed: tools/install-deps installs it");
let chromium;
try {
  ({ chromium } = createRequire(new URL("../../web/package.json", import.meta.url))("playwright-core"));
} catch {
  skip("playwright-core is not installed in web/: it comes with the build, if there is npm (tools/install-deps)");
}

const directory = mkdtempSync(join(tmpdir(), "passing-report-"));
const browser = await chromium.launch({
  executablePath: browserPath,
  args: process.getuid() === 0 ? ["--no-sandbox"] : [], // Chromium refuses to sandbox root
});

const report = (...args) => spawnSync(passing, ["report", ...args], { cwd: directory, encoding: "utf8" });

/** Writes files of results, reports them and opens the report; whatever goes wrong in the page is in `faults`. */
async function open(files, { width = 1200, theme = "light" } = {}) {
  const names = files.map((content, i) => {
    writeFileSync(join(directory, `${i}.json`), JSON.stringify(content));
    return `${i}.json`;
  });
  const made = report(...names, "--output", "out.html");
  assert.equal(made.status, 0, made.stderr);
  assert.match(made.stdout, /The report is in .*out\.html/);
  const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme: theme });
  const faults = [];
  page.on("console", (message) => faults.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("dialog", (dialog) => { faults.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => { if (!/^(file|data):/.test(request.url())) faults.push(`request: ${request.url()}`); });
  await page.goto(pathToFileURL(join(directory, "out.html")).href);
  await page.waitForFunction(() => [...document.querySelectorAll(".chart")].every((chart) => chart.querySelector("svg")));
  return { page, faults };
}

/** A field of a result by its path. */
const own = (object, key) => (object && Object.hasOwn(object, key) ? object[key] : undefined);
const at = (result, path) => {
  const [first, ...rest] = path.split(".");
  return rest.length > 0 ? own(own(result, first), rest.join(".")) : own(result, first);
};

/** Every cell that names a field has the file's value; gives back which "report/row/field" were seen. */
async function compareCells(page, files) {
  const cells = await page.$$eval("[data-field]", (elements) => elements.map((element) => ({ ...element.dataset, text: element.textContent })));
  const seen = new Set();
  for (const { report: file, row, field, value, text } of cells) {
    const wanted = at(files[file].results[row], field);
    if (wanted === undefined || wanted === null || wanted === "") {
      assert.equal(value, undefined);
      assert.equal(text, "–");
    } else {
      assert.equal(value, String(wanted), `${field} of result ${row} of file ${file}`);
      assert.notEqual(text.trim(), "");
    }
    seen.add(`${file}/${row}/${field}`);
  }
  return seen;
}

const shapes = (page, selector) => page.$$eval(selector, (elements) => elements.length);
const figures = (page, kind) => page.$$(`figure[data-figure=${kind}]`);

const tests = {
  async "every chart is drawn, with its table, command and commit"() {
    const files = day();
    const { page, faults } = await open(files);
    const cases = 6; // 4 hosts with 1 and 2 ranks; 2, 3, 6 and 8 hosts with 2
    for (const kind of ["bandwidth", "time", "link", "cpu"]) assert.equal((await figures(page, kind)).length, cases, kind);
    assert.equal((await figures(page, "hosts")).length, 1);
    assert.equal((await figures(page, "ranks")).length, 1);
    for (const figure of await page.$$("figure")) {
      const drawn = await figure.evaluate((element) => ({
        kind: element.dataset.figure,
        lines: element.querySelectorAll(".series path, path.series, g.series").length,
        marks: [...element.querySelectorAll(".chart svg path, .chart svg rect")].filter((mark) => {
          const box = mark.getBoundingClientRect();
          return box.width > 0 || box.height > 0;
        }).length,
        rows: element.querySelectorAll("tbody tr").length,
        label: element.querySelector(".chart").getAttribute("aria-label"),
        command: element.querySelector(".provenance .command")?.textContent,
        commit: element.querySelector(".provenance .commit")?.textContent,
      }));
      assert.ok(drawn.marks >= allStrategies.length, `${drawn.kind} is blank`);
      if (!["link", "cpu"].includes(drawn.kind)) assert.ok(drawn.lines >= allStrategies.length, `${drawn.kind} lacks lines`);
      assert.ok(drawn.rows >= allStrategies.length, drawn.kind);
      assert.ok(drawn.label.length > 20);
      assert.ok(files.some((file) => file.command === drawn.command && file.commit === drawn.commit), drawn.kind);
    }
    assert.deepEqual(faults, []);
    await page.close();
  },

  async "every number of the files is in a table, unrounded"() {
    const files = day();
    const { page, faults } = await open(files);
    const seen = await compareCells(page, files);
    files.forEach(({ results }, file) => results.forEach((result, row) => {
      for (const [field, value] of Object.entries(result)) {
        if (field === "peer") continue;
        const paths = typeof value === "object" ? Object.keys(value).map((key) => `${field}.${key}`) : [field];
        for (const path of paths) assert.ok(seen.has(`${file}/${row}/${path}`), `${path} of result ${row} of file ${file}`);
      }
    }));
    assert.deepEqual(faults, []);
    await page.close();
  },

  async "dataplanes stand side by side, with what the whole machine spent"() {
    const file = dataplanes();
    const { page, faults } = await open([file]);
    for (const kind of ["bandwidth", "link", "cpu", "latency"]) {
      const [figure, ...more] = await figures(page, kind);
      assert.equal(more.length, 0, kind);
      assert.equal((await figure.$$(".bar rect, rect.bar, .bar path")).length, file.results.length, kind);
      const names = await figure.$$eval("tbody th", (cells) => cells.map((each) => each.textContent));
      assert.deepEqual(names.sort(), ["passing", "passing@mmsg", "passing@tc", "passing@xdp"], kind);
    }
    assert.match(await (await figures(page, "cpu"))[0].textContent(), /the whole machine/);
    const seen = await compareCells(page, [file]);
    file.results.forEach((_, row) => {
      for (const field of ["dataplane", "machine_cpu_seconds_per_gb", "program_seconds_per_gb"]) assert.ok(seen.has(`0/${row}/${field}`), field);
    });
    assert.deepEqual(faults, []);
    await page.close();
  },

  async "a training has its curves, bars and numbers"() {
    const file = training();
    const { page, faults } = await open([file]);
    assert.equal(await page.title(), "Training · PASSING");
    for (const [kind, count] of [["loss", 1], ["speed", 2], ["communication", 2], ["link", 2]]) {
      assert.equal((await figures(page, kind)).length, count, kind);
    }
    assert.equal(await shapes(page, "figure[data-figure=loss] .series path, figure[data-figure=loss] path.series"), 3);
    const strategies = file.results.filter((result) => result.mode === "replay").length;
    for (const bars of await figures(page, "speed")) {
      assert.equal((await bars.$$(".bar rect, rect.bar, .bar path")).length, strategies);
    }
    const seen = await compareCells(page, [file]);
    file.results.forEach((result, row) => {
      for (const [field, value] of Object.entries(result)) {
        if (["peer", "losses", "step_ends"].includes(field) || value === null) continue;
        const paths = typeof value === "object" ? Object.keys(value).map((key) => `${field}.${key}`) : [field];
        for (const path of paths) assert.ok(seen.has(`0/${row}/${path}`), `${path} of result ${row}`);
      }
    });
    const best = file.results[2];
    assert.equal(best.strategy, "passing");
    assert.match(await page.textContent("[data-key=over-ps]"), /the steps per second of a parameter server, by passing/);
    // The last point of the curve is the last step.
    await page.focus("figure[data-figure=loss] .chart");
    await page.keyboard.press("End");
    await page.keyboard.press("ArrowRight");
    assert.match(await page.textContent("figure[data-figure=loss] .chart [aria-live]"), /step \d+.*loss/);
    assert.deepEqual(faults, []);
    await page.close();
  },

  async "a simulation has its curves, parts, slots and a picture"() {
    const file = simulation();
    const { page, faults } = await open([file]);
    assert.equal(await page.title(), "Simulation · PASSING");
    for (const kind of ["iteration", "efficiency", "over-ps", "over-ring", "parts", "slots", "cluster"]) assert.equal((await figures(page, kind)).length, 2, kind);
    for (const kind of ["iteration", "efficiency", "over-ps"]) {
      for (const each of await figures(page, kind)) assert.equal((await each.$$(".series path, path.series")).length, 9, kind);
    }
    for (const each of await figures(page, "slots")) assert.equal((await each.$$(".series path, path.series")).length, 3);
    // Only the largest is shown first, without in_network; its parts are those of the file.
    const bars = await page.$eval("figure[data-figure=parts] .chart svg", (svg) => [svg.querySelectorAll(".bar rect, rect.bar").length, svg.textContent]);
    assert.ok(bars[0] >= 8 * 4 && !bars[1].includes("in_network"), bars.join());
    await page.locator("figure[data-figure=parts] select").first().selectOption("8");
    assert.ok((await page.textContent("figure[data-figure=parts] .chart svg")).includes("in_network"));
    assert.match(await page.textContent("[data-key=over-ps]"), /the speed of a parameter server, by passing/);
    assert.match(await page.textContent("#absent"), /in_network would give a switch/);
    const seen = await compareCells(page, [file]);
    file.results.forEach((result, row) => {
      for (const [field, value] of Object.entries(result)) {
        const paths = value && typeof value === "object" ? Object.keys(value).map((key) => `${field}.${key}`) : [field];
        for (const path of paths) assert.ok(seen.has(`0/${row}/${path}`), `${path} of result ${row}`);
      }
    });
    assert.deepEqual(faults, []);
    await page.close();
  },

  async "the busiest link is marked in the picture of the cluster"() {
    const { page, faults } = await open([simulation()]);
    const cluster = page.locator("figure[data-figure=cluster]").first();
    const marked = () => cluster.locator(".chart svg .busiest").count();
    const choose = async (strategy, gpus) => {
      await cluster.locator("select").nth(0).selectOption({ label: strategy });
      await cluster.locator("select").nth(1).selectOption(String(gpus));
      return marked();
    };
    assert.ok((await choose("passing", 65536)) > 1, "every host's link");
    assert.match(await cluster.locator(".chart svg").textContent(), /8192 hosts × 8 in 512 racks, links 100.Gbit\/s/);
    assert.ok((await choose("ps", 64)) >= 1, "the servers' links");
    assert.match(await cluster.locator(".chart svg").textContent(), /server 0/);
    assert.ok((await choose("ps_hierarchical", 1024)) > 1, "the racks' links");
    await cluster.locator(".chart").focus();
    await page.keyboard.press("ArrowRight");
    assert.match(await cluster.locator(".chart [aria-live]").textContent(), /busiest: rack0 down/);
    assert.deepEqual(faults, []);
    await page.close();
  },

  async "a simulation with one size, one strategy and missing fields"() {
    const file = simulation();
    file.results = [{ ...file.results[7], gpus: 8 }, { strategy: "ring" }];
    const { page, faults } = await open([file], { width: 360 });
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 360);
    await compareCells(page, [file]);
    assert.deepEqual(faults, []);
    await page.close();
  },

  async "a training and a benchmark stand on one page"() {
    const { page, faults } = await open([sample(), training()]);
    assert.deepEqual(await page.$$eval("h2.kind", (all) => all.map((each) => each.textContent)), ["Training", "All-reduce benchmark"]);
    assert.deepEqual(faults, []);
    await page.close();
  },

  async "key figures are those of the files"() {
    const file = sample({ seed: 5, only: ["passing", "ring", "gloo", "openmpi"] });
    file.results[1].verified = false;
    const { page } = await open([file]);
    const row = (strategy) => file.results.find((result) => result.strategy === strategy);
    const best = row("gloo").median_seconds < row("openmpi").median_seconds ? "gloo" : "openmpi";
    assert.equal(await page.textContent("#fastest .ratio"), `${row("passing").ratio_to[best].toFixed(2)}\u202f× ahead`);
    assert.match(await page.textContent("[data-key=ratio]"), /^[\d.]+\u202f×the speed of the fastest peer, by passing/);
    assert.match(await page.textContent("[data-key=verified].bad"), /3 of 4.*1 failed/);
    assert.match(await page.textContent("#absent"), /gloo_bcube: bcube needs a power of two/);
    await page.close();
  },

  async "sums in the rack are a line of their own, and failures are told"() {
    const file = sample({ sizes: [1e6, 16e6], only: ["passing", "ring", "gloo"] });
    for (const row of file.results.filter((each) => each.strategy === "passing")) {
      file.results.push({ ...row, local_domain: "rack", ratio_to: { passing: 0.5 } });
      row.ratio_to["passing:rack"] = 2;
    }
    const { strategy, hosts, ranks_per_host, rate_bps, bytes } = file.results[1];
    file.results[1] = { strategy, hosts, ranks_per_host, rate_bps, bytes, verified: false, error: "rank 3 is missing" };
    const { page, faults } = await open([file]);
    const names = await page.$$eval(".legend button", (all) => all.map((button) => button.textContent));
    assert.ok(names.includes("passing:rack"), names.join());
    assert.match(await page.textContent("#failed"), /ring \(4 hosts × 2 ranks, 1\u202fGbit\/s, 1\u202fMB\): rank 3 is missing/);
    await compareCells(page, [file]);
    assert.deepEqual(faults, []);
    await page.close();
  },

  async "legends work by keyboard, in all charts at once"() {
    const { page, faults } = await open([sample({ sizes: [1e6, 16e6] })]);
    const lines = await shapes(page, "[data-figure=bandwidth] svg .series");
    const bars = await page.$eval("[data-figure=link] svg", (svg) => svg.textContent.includes("halving_doubling"));
    assert.ok(bars);
    const button = page.locator(".legend button[data-series=halving_doubling]").first();
    await button.focus();
    assert.equal(await button.getAttribute("aria-pressed"), "true");
    await page.keyboard.press("Space");
    assert.equal(await button.getAttribute("aria-pressed"), "false");
    assert.equal(await shapes(page, "[data-figure=bandwidth] svg .series"), lines - 1);
    assert.ok(!(await page.$eval("[data-figure=link] svg", (svg) => svg.textContent.includes("halving_doubling"))));
    await page.keyboard.press("Enter");
    assert.equal(await button.getAttribute("aria-pressed"), "true");
    assert.equal(await shapes(page, "[data-figure=bandwidth] svg .series"), lines);
    assert.ok((await shapes(page, "[data-figure=bandwidth] svg .limit")) > 0);
    await page.locator(".legend button[data-series=limits]").first().press("Enter");
    assert.equal(await shapes(page, "[data-figure=bandwidth] svg .limit"), 0);
    // All of them off: no chart may break.
    const pressed = page.locator(".legend button[aria-pressed=true]");
    while ((await pressed.count()) > 0) await pressed.first().press("Enter");
    assert.match(await page.textContent("[data-figure=time] .chart"), /all is hidden/);
    assert.deepEqual(faults, []);
    await page.close();
  },

  async "charts and tables are read by keyboard"() {
    const file = sample({ sizes: [1e6, 16e6] });
    const { page, faults } = await open([file]);
    const chart = page.locator("[data-figure=time] .chart");
    await chart.focus();
    await page.keyboard.press("ArrowRight");
    const said = chart.locator("[aria-live]");
    assert.match(await said.textContent(), /^passing, 1\u202fMB, /);
    await page.keyboard.press("ArrowRight");
    assert.match(await said.textContent(), /^passing, 16\u202fMB, /);
    assert.ok(await chart.locator(".tip").isVisible());
    await page.keyboard.press("ArrowUp");
    assert.doesNotMatch(await said.textContent(), /^passing,/);
    await page.keyboard.press("Escape");
    assert.ok(!(await chart.locator(".tip").isVisible()));
    const table = page.locator("[data-figure=time] table");
    assert.ok(!(await table.isVisible()));
    await page.locator("[data-figure=time] summary").press("Enter");
    assert.ok(await table.isVisible());
    await page.locator("[data-figure=link] select").selectOption("1000000");
    assert.deepEqual(faults, []);
    await page.close();
  },

  async "light and dark, by the system and by the button"() {
    const background = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const { page: light } = await open([sample()], { theme: "light" });
    const { page: dark, faults } = await open([sample()], { theme: "dark" });
    const [day, night] = [await background(light), await background(dark)];
    assert.notEqual(day, night);
    await dark.locator("#theme").press("Enter");
    assert.equal(await background(dark), day);
    await dark.reload();
    assert.equal(await background(dark), day, "the choice is remembered");
    await dark.locator("#theme").press("Enter");
    assert.equal(await background(dark), night);
    assert.deepEqual(faults, []);
    await light.close();
    await dark.close();
  },

  async "a phone has room for all of it"() {
    const { page, faults } = await open(day(), { width: 360 });
    for (const details of await page.$$("details")) await details.evaluate((element) => { element.open = true; });
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 360);
    const charts = await page.$$eval(".chart svg", (all) => all.map((svg) => svg.getBoundingClientRect().right));
    assert.ok(Math.max(...charts) <= 360);
    assert.deepEqual(faults, []);
    await page.close();
  },

  async "the same case in two files is a comparison"() {
    const files = [sample({ seed: 1, commit: "aaaaaaa" }), sample({ seed: 9, commit: "bbbbbbb" })];
    const { page, faults } = await open(files);
    const names = await page.$$eval(".legend button", (all) => all.map((button) => button.textContent));
    assert.ok(names.includes("passing (aaaaaaa)") && names.includes("passing (bbbbbbb)"), names.join());
    assert.equal((await page.$$("figure[data-figure=bandwidth] .provenance p")).length, 2);
    await compareCells(page, files);
    assert.deepEqual(faults, []);
    await page.close();
  },

  async "links that are not shaped, and fields that are missing"() {
    const bare = sample({ rates: [0], only: ["passing", "ring", "gloo"] });
    for (const row of bare.results) for (const field of ["cpu_seconds_per_gb", "busiest_link", "min_seconds", "racks", "ratio_to"]) delete row[field];
    bare.results[1] = { strategy: "ring", bytes: 16e6, hosts: 4 };
    bare.results.push({});
    for (const field of ["commit", "machine", "date", "command", "absent"]) delete bare[field];
    const { page, faults } = await open([bare]);
    await compareCells(page, [bare]);
    assert.equal((await figures(page, "cpu")).length, 0);
    assert.deepEqual(faults, []);
    await page.close();
  },

  async "hostile text is text"() {
    const evil = `</script><img src=x onerror="alert(1)"><!--<script>'"&$&`;
    const file = sample({ sizes: [1e6, 16e6], commit: evil });
    file.command = evil;
    file.machine = { cpu: evil, kernel: evil };
    file.date = evil;
    file.absent = [{ strategy: evil, reason: evil }];
    for (const row of file.results.slice(0, 3)) Object.assign(row, { strategy: evil, busiest_link: evil, local_domain: evil });
    file.results[0].ratio_to = { [evil]: 2, "a.b": 3, constructor: 4 };
    file.results.push({ ...file.results[5], strategy: "constructor" });
    const { page, faults } = await open([file]);
    assert.equal((await page.$$("img")).length, 0);
    assert.equal(await page.textContent(".origins .command"), evil);
    assert.equal(await page.textContent("#absent li b"), evil);
    await compareCells(page, [file]);
    assert.deepEqual(faults, []);
    await page.close();
  },

  async "bad input gets a sentence and status 2"() {
    const good = sample();
    const cases = [
      ["missing.json", undefined, /missing\.json cannot be read: No such file or directory; `passing bench`, `passing train` and `passing simulate` write one with --json FILE/],
      ["empty.json", "\n", /empty\.json is empty: .*run it again/],
      ["text.json", "{\n\n  hello", /text\.json is not JSON: line 3 /],
      ["cut.json", JSON.stringify(good).slice(0, 400), /cut\.json is not JSON: line 1 /],
      ["list.json", "[]", /list\.json has no "format"/],
      ["other.json", JSON.stringify({ ...good, format: "passing-other" }), /format is "passing-other": must be "passing-bench", "passing-train" or "passing-simulate"/],
      ["newer.json", JSON.stringify({ ...good, version: 2 }), /version is 2: this passing knows version 1; /],
      ["none.json", JSON.stringify({ ...good, results: undefined }), /none\.json has no list of "results"/],
      ["nothing.json", JSON.stringify({ ...good, results: [] }), /nothing\.json has no results: .*run the benchmark again/],
      ["typed.json", JSON.stringify({ ...good, results: [{ bytes: "many" }] }), /results\[0\]\.bytes is "many": must be a number/],
      ["losses.json", JSON.stringify({ ...training(), results: [{ losses: [1, "x"] }] }), /results\[0\]\.losses is \[1,"x"\]: must be a list of numbers/],
      ["huge.json", `{"format": 1e999}`, /huge\.json/],
    ];
    for (const [name, content, wanted] of cases) {
      if (content !== undefined) writeFileSync(join(directory, name), content);
      const { status, stderr } = report(name, "--output", "bad.html");
      assert.match(stderr, wanted);
      assert.equal(stderr.trim().split("\n").length, 1, "one line");
      assert.equal(status, 2, name);
    }
    assert.ok(!existsSync(join(directory, "bad.html")));
    writeFileSync(join(directory, "good.json"), JSON.stringify(good));
    assert.match(report(".", "--output", "x.html").stderr, /\. is a directory/);
    assert.equal(report("good.json", "--output", "no/where.html").status, 2);
    const own = report("good.json", "--output", "./good.json");
    assert.equal(own.status, 2);
    assert.match(own.stderr, /good\.json is a file of results/);
    assert.deepEqual(JSON.parse(readFileSync(join(directory, "good.json"), "utf8")), good, "results are never overwritten");
    assert.match(report("good.json", "--output", "-").stdout, /^<!doctype html>[^]*<\/html>\n$/);
  },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  try {
    await test();
    console.log(`ok      ${name}`);
  } catch (error) {
    failed = 1;
    console.log(`FAILED  ${name}\n${error.stack}`);
  }
}
await browser.close();
rmSync(directory, { recursive: true });
process.exit(failed);
