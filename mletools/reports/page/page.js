"use strict";
// The table of rollouts and the viewer. Agents' text is in the packed blocks, as HTML that the report has escaped; the page's
// security policy allows only this script.
(() => {
  const byId = (id) => document.getElementById(id);
  const COLUMNS = byId("columns") ? JSON.parse(byId("columns").textContent) : [];
  const at = Object.fromEntries(COLUMNS.map((name, number) => [name, number]));
  let shown = COLUMNS.filter((name) => name !== "block" && name !== "place");
  const TEXT = new Set(["id", "set", "task", "modality", "scaffold", "policy", "stopped", "status", "medal", "reading", "filter"]);
  const LONG = new Set(["set", "task", "policy", "filter"]);  // may be broken anywhere
  const MEDALS = { gold: 3, silver: 2, bronze: 1 };
  const VERDICTS = ["valid", "invalid", "any", "gold", "silver", "bronze"];
  const PAGE = 100;
  const selects = [...document.querySelectorAll("select[data-name]")];
  let rows = [], chosen = [], sorted = { name: null, down: false }, first = 0, current = null, repeated = new Set();
  const blocks = new Map();
  // the table of rollouts is complete before the browser has read all blocks
  const loaded = new Promise((resolve) => document.addEventListener("DOMContentLoaded", resolve));

  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  function detail(row) {
    const number = row[at.block];
    if (!blocks.has(number)) {
      if (blocks.size > 8) blocks.delete(blocks.keys().next().value);
      const read = byId("block-" + (number + 1)) ? Promise.resolve() : loaded;
      blocks.set(number, read.then(() => unpack(byId("block-" + number).textContent)));
    }
    return blocks.get(number).then((texts) => texts[row[at.place]]);
  }

  function filled(node, attributes, text) {
    for (const [key, value] of Object.entries(attributes)) if (value !== "") node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return node;
  }
  const element = (name, text, attributes = {}) => filled(document.createElement(name), attributes, text);

  const formatted = (value) => value === null ? "–" : value === true ? "yes" : value === false ? "no" :
    typeof value === "number" && !Number.isInteger(value) ? String(+value.toPrecision(4)) : String(value);
  // what a cell says when the pointer rests on it: the whole number, the whole id, why a stop reason goes with a score
  const whole = (row, name) => {
    const value = row[at[name]];
    if (name === "id") return value;
    if (name === "stopped" && value === "format" && row[at.valid]) return byId("rows").dataset.format;
    return typeof value === "number" && String(value) !== formatted(value) ? String(value) : "";
  };

  // a text that may be broken after _ - / and within long words
  function breakable(text) {
    const parts = text.match(/[^_\-/]{1,16}[_\-/]?|[_\-/]/g) || [];
    return parts.flatMap((part, number) => number ? [document.createElement("wbr"), part] : [part]);
  }

  const ways = (row) => row[at.reading] === null ? [] : row[at.reading].split(" | ");
  const align = (name) => TEXT.has(name) ? "text" : "";
  const title = (name) => name === "human_rank" ? byId("rows").dataset.rank : name.replace(/_s$/, " s").replace(/_/g, " ");

  function compare(a, b, name) {
    let x = a[at[name]], y = b[at[name]];
    if (name === "medal") { x = MEDALS[x] || 0; y = MEDALS[y] || 0; }
    if (x === null || y === null) return (x === null) - (y === null);  // missing values come last
    const order = typeof x === "string" ? x.localeCompare(y) : x - y;
    return sorted.down ? -order : order;
  }

  // what a row has of each filter's values
  const verdicts = (row) => [row[at.valid] ? "valid" : "invalid", row[at.medal] && "any", row[at.medal]];
  const valuesOf = (row, name) => name === "reading" ? ways(row) : name === "medal" ? verdicts(row) : [formatted(row[at[name]])];

  function choose() {
    const words = byId("filter-words").value.toLowerCase().split(/\s+/).filter(Boolean);
    const filters = selects.filter((select) => select.value);
    chosen = rows.filter((row) => filters.every((select) => valuesOf(row, select.dataset.name).includes(select.value)) &&
      words.every((word) => row.some((cell) => typeof cell === "string" && cell.toLowerCase().includes(word))));
    if (sorted.name) chosen.sort((a, b) => compare(a, b, sorted.name));
    first = 0;
    show();
  }

  function show() {
    const body = byId("rows").tBodies[0];
    body.replaceChildren(...chosen.slice(first, first + PAGE).map((row) => {
      const line = element("tr", undefined, { "data-id": row[at.id], class: row === current ? "here" : "" });
      for (const name of shown) {
        const medal = name === "medal" && row[at.medal] ? "medal " + row[at.medal] : "";
        const cell = element("td", undefined,
          { class: `${align(name)} ${medal}`.trim(), "data-label": title(name), title: whole(row, name) });
        cell.append(...(name === "id" ? [element("a", row[at.id].slice(0, 12), { href: address(row) })]
          : LONG.has(name) ? breakable(formatted(row[at[name]])) : [formatted(row[at[name]])]));
        line.append(cell);
      }
      return line;
    }));
    const last = Math.min(first + PAGE, chosen.length);
    byId("count").textContent = chosen.length ? `${first + 1} to ${last} of ${chosen.length.toLocaleString("en")} rollouts` : "no rollouts";
    byId("previous").disabled = first === 0;
    byId("next").disabled = last === chosen.length;
    for (const button of document.querySelectorAll("#rows th button")) {
      const here = button.dataset.name === sorted.name;
      button.parentElement.setAttribute("aria-sort", here ? (sorted.down ? "descending" : "ascending") : "none");
      button.textContent = button.dataset.title + (here ? (sorted.down ? " ▼" : " ▲") : "");
    }
  }

  async function open(row, focus) {
    const viewer = byId("viewer");
    current = row;
    viewer.hidden = !row;
    show();
    if (!row) return;
    byId("viewer-title").textContent = `Rollout ${row[at.id]}`;
    byId("viewer-body").innerHTML = await detail(row);
    if (focus) { viewer.scrollIntoView(); byId("viewer-title").focus({ preventScroll: true }); }
  }

  // with the set where several sets have the rollout; as Python writes it
  const address = (row) => "#" + encodeURIComponent(row[at.id]) +
    (repeated.has(row[at.id]) ? "&set=" + encodeURIComponent(row[at.set]) : "");

  function step(by) {
    const here = chosen.indexOf(current);
    const next = chosen[here === -1 ? 0 : here + by];
    if (!next) return;
    const place = chosen.indexOf(next);
    if (place < first || place >= first + PAGE) first = place - place % PAGE;
    location.hash = address(next);
  }

  function follow() {
    let id, set;
    try { [id, set] = location.hash.slice(1).replace(/^rollout=/, "").split("&set=").map(decodeURIComponent); }
    catch { return; }  // a % that no page of ours writes
    const row = rows.find((each) => each[at.id] === id && (set === undefined || each[at.set] === set));
    if (row) open(row, true);
  }

  function theme() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  }

  // --- the fields of the training steps: one is drawn at a time ---

  const svg = (name, attributes, text) => filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, text);

  function chart(name, lines) {
    const points = Object.values(lines).flat(), left = 70, right = 690, top = 30, bottom = 250;
    const range = (values) => {
      const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
      return low === high ? [low - 0.5, high + 0.5] : [low, high];
    };
    const [x0, x1] = range(points.map((point) => point[0])), [y0, y1] = range(points.map((point) => point[1]));
    const x = (value) => left + (right - left) * ((value - x0) / (x1 - x0));
    const y = (value) => bottom - (bottom - top) * ((value - y0) / (y1 - y0));
    const drawn = svg("svg", { viewBox: "0 0 700 290", "aria-hidden": "true" });
    for (let tick = 0; tick <= 4; tick++) {
      const up = y0 + (y1 - y0) * tick / 4;
      drawn.append(svg("line", { x1: left, x2: right, y1: y(up), y2: y(up), stroke: "var(--line)" }),
        svg("text", { x: left - 6, y: y(up) + 4, "text-anchor": "end" }, String(+up.toPrecision(3))));
    }
    for (let across = Math.ceil(x0); across <= x1; across += Math.ceil((x1 - x0) / 6)) {  // whole steps
      drawn.append(svg("text", { x: x(across), y: bottom + 18, "text-anchor": "middle" }, String(across)));
    }
    drawn.append(svg("text", { x: (left + right) / 2, y: bottom + 36, "text-anchor": "middle" }, "optimiser step"));
    Object.entries(lines).forEach(([label, line], number) => {
      const colour = `var(--series-${number % 6 + 1})`;
      drawn.append(svg("path", { d: "M" + line.map(([a, b]) => `${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("L"), fill: "none", stroke: colour, "stroke-width": 2 }));
      if (line.length === 1) drawn.append(svg("circle", { cx: x(line[0][0]), cy: y(line[0][1]), r: 3, fill: colour }));
      drawn.append(svg("text", { x: left + 150 * (number % 4), y: 14 * (1 + Math.floor(number / 4)), fill: colour, class: "label" }, "— " + label.slice(0, 20)));
    });
    byId("field-chart").setAttribute("aria-label", `${title(name)} by optimiser step`);
    byId("field-chart").replaceChildren(drawn);
  }

  async function training() {
    const fields = await unpack(byId("step-data").textContent), select = byId("field");
    select.append(...Object.keys(fields).map((name) => element("option", title(name), { value: name })));
    const begun = ["reward_mean", "loss"].find((name) => name in fields);
    if (begun) select.value = begun;
    select.addEventListener("change", () => chart(select.value, fields[select.value]));
    if (select.value) chart(select.value, fields[select.value]);
  }

  async function begin() {
    byId("theme").addEventListener("click", theme);
    if (byId("step-data")) training();
    if (!byId("rows")) return;
    rows = await unpack(byId("row-data").textContent);
    const ids = new Set();
    for (const row of rows) (ids.has(row[at.id]) ? repeated : ids).add(row[at.id]);
    const distinct = (name) => new Set(rows.map((row) => row[at[name]]));
    const some = shown.filter((name) => [...distinct(name)].some((value) => value !== null));
    // what all rollouts share stands above the table
    const same = some.filter((name) => TEXT.has(name) && name !== "id" && distinct(name).size === 1 && (rows.length > 1 || name === "set"));
    byId("same").textContent = same.length ? "All: " + same.map((name) => `${title(name)} ${rows[0][at[name]]}`).join(", ") : "";
    shown = some.filter((name) => !same.includes(name));
    const head = byId("rows").tHead.rows[0];
    for (const name of shown) {
      const cell = element("th", undefined, { class: align(name), scope: "col" });
      const button = element("button", name, { type: "button", "data-name": name, "data-title": title(name) });
      button.addEventListener("click", () => {
        sorted = { name, down: sorted.name === name ? !sorted.down : !TEXT.has(name) };
        choose();
      });
      cell.append(button);
      head.append(cell);
    }
    for (const select of selects) {
      const name = select.dataset.name, values = [...new Set(rows.flatMap((row) => valuesOf(row, name)))].sort();
      select.append(...(name === "medal" ? VERDICTS : values).map((value) => element("option", value)));
      select.parentElement.hidden = ["set", "status", "reading"].includes(name) && !shown.includes(name);
      select.addEventListener("change", choose);
    }
    byId("filter-words").addEventListener("input", choose);
    byId("previous").addEventListener("click", () => { first = Math.max(0, first - PAGE); show(); });
    byId("next").addEventListener("click", () => { first += PAGE; show(); });
    byId("before").addEventListener("click", () => step(-1));
    byId("after").addEventListener("click", () => step(1));
    byId("close").addEventListener("click", () => { location.hash = "rollouts"; open(null, false); });
    document.addEventListener("keydown", (event) => {
      if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "j") step(1);
      else if (event.key === "k") step(-1);
      else if (event.key === "/") { event.preventDefault(); byId("filter-words").focus(); }
      else if (event.key === "Escape" && current) byId("close").click();
    });
    addEventListener("hashchange", follow);
    choose();
    follow();
    document.documentElement.dataset.ready = "yes";
  }
  begin();
})();
