// The page of a peer: asks the peer that served it for its status, again and again, and draws the answers.
// Names and addresses come from other peers: they are only used as text.
"use strict";

const REFRESH_MS = 2000;
const ANSWER_MS = 5000;         // until an answer begins
const REST_MS = 30000;          // until all of it is here, over a narrow line
const HISTORY_EVERY = 3;        // refreshes
const MEMBERS_SHOWN = 200;      // rows of the table; the others are counted
const MEMBERS_DRAWN = 400;
const SVG = "http://www.w3.org/2000/svg";
const AXES = [["samples", "samples"], ["seconds", "time"], ["bytes_sent", "bytes sent"]];

const byId = (id) => document.getElementById(id);
let axis = AXES[0][0];
let rows = [];                  // of the metrics
let answeredAt = null;
let isOver = false;             // in the last answer

// --- text for people ---

/// With three significant digits; in the next unit if it would be rounded to 1000.
const scaled = (value, units) => {
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value < 99.95 ? Number(value.toPrecision(3)) : Math.round(value)}${units[unit]}`;
};
const missing = (value) => value === null || value === undefined || !Number.isFinite(value);
const bytes = (value) => missing(value) ? "-" : scaled(value, [" B", " kB", " MB", " GB", " TB"]);
const count = (value) => missing(value) ? "-" : value.toLocaleString("en-US");
const short = (value) => missing(value) ? "-" : scaled(value, ["", "k", "M", "G"]);
const percent = (value, digits = 2) => missing(value) ? "-" : `${(value * 100).toFixed(digits)}%`;
const fixed = (value, digits) => missing(value) ? "-" : value.toFixed(digits);
const duration = (value) => {
  if (missing(value)) return "-";
  if (value < 100) return `${Math.round(value)} s`;
  if (value < 6000) return `${Math.round(value / 60)} min`;
  return value < 360000 ? `${(value / 3600).toFixed(1)} h` : `${(value / 86400).toFixed(1)} days`;
};

// --- the document ---

function element(tag, content, className) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (typeof content === "string") made.textContent = content;
  else if (content) made.append(...content);
  return made;
}

function shape(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/// Columns: [heading, value of a row, class]; a value is a text or nodes.
function fill(table, columns, entries, rowClass) {
  const head = element("tr", columns.map(([heading, , kind]) => {
    const cell = element("th", heading, kind);
    cell.scope = "col";
    return cell;
  }));
  const body = entries.map((row) =>
    element("tr", columns.map(([, value, kind]) => element("td", value(row), kind)), rowClass?.(row)));
  table.replaceChildren(element("thead", [head]), element("tbody", body));
}

const carrierOf = (link) => link.via === null ? link.carrier : `${link.carrier} via ${link.via}`;
const trustOf = ({trust, loss_times: times}) =>
  ["doubted", "none"].includes(trust) ? `${trust}: its pull gives ${fixed(times, 1)} times the loss` : trust;
const named = (name, state) => [element("span", "", `dot ${state}`), name || "?"];

// --- charts ---

const BOX = {width: 340, height: 190, left: 46, right: 10, top: 10, bottom: 24};

/// Round numbers that divide [low, high] into about `parts`.
function ticks(low, high, parts) {
  const raw = (high - low) / parts || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= raw);
  const made = [];
  for (let i = Math.ceil(low / step); i * step <= high * (1 + 1e-9); i += 1) made.push(i * step);
  return made;
}

/// curves: [{name, color, key}]; only rows that have both values count.
function chart(title, curves, format) {
  const points = curves.map(({key}) => rows
    .filter((row) => !missing(row[axis]) && !missing(row[key]))
    .map((row) => ({x: row[axis], y: row[key]})));
  const all = points.flat();
  const legend = curves.map(({name, color}, i) => {
    const newest = points[i].at(-1);
    return element("span", `${name} ${newest ? format(newest.y) : ""}`, color);
  });
  const caption = element("figcaption", [title, element("span", legend.flatMap((one) => [one, " "]))]);
  const svg = shape("svg", {viewBox: `0 0 ${BOX.width} ${BOX.height}`, role: "img", "aria-label": title});
  const figure = element("figure", [caption, svg]);
  if (all.length === 0) {
    svg.append(shape("text", {x: BOX.width / 2, y: BOX.height / 2, "text-anchor": "middle"},
      "nothing to draw yet"));
    return figure;
  }
  const xMax = Math.max(...all.map(({x}) => x)) || 1;
  let low = Math.min(...all.map(({y}) => y));
  let high = Math.max(...all.map(({y}) => y));
  if (high === low) high = low + Math.max(Math.abs(low), 1e-9);
  low = Math.max(low - (high - low) * 0.05, low >= 0 ? 0 : -Infinity);
  high += (high - low) * 0.05;
  const px = (x) => BOX.left + (x / xMax) * (BOX.width - BOX.left - BOX.right);
  const py = (y) => BOX.height - BOX.bottom - ((y - low) / (high - low)) * (BOX.height - BOX.top - BOX.bottom);
  for (const y of ticks(low, high, 4)) {
    svg.append(shape("line", {class: "grid", x1: BOX.left, x2: BOX.width - BOX.right, y1: py(y), y2: py(y)}),
      shape("text", {x: BOX.left - 6, y: py(y) + 4, "text-anchor": "end"}, format(y)));
  }
  const xFormat = {samples: short, seconds: duration, bytes_sent: bytes}[axis];
  for (const x of ticks(0, xMax, 4)) {
    svg.append(shape("text", {x: px(x), y: BOX.height - 8, "text-anchor": "middle"}, xFormat(x)));
  }
  curves.forEach(({color}, i) => {
    if (points[i].length === 1) {
      const [{x, y}] = points[i];
      svg.append(shape("circle", {class: `curve ${color}`, cx: px(x), cy: py(y), r: 2}));
    }
    const line = points[i].map(({x, y}) => `${px(x).toFixed(1)},${py(y).toFixed(1)}`).join(" ");
    svg.append(shape("polyline", {class: `curve ${color}`, points: line}));
  });
  const here = shape("line", {class: "here", y1: BOX.top, y2: BOX.height - BOX.bottom, visibility: "hidden"});
  svg.append(here);
  const newest = legend.map((one) => one.textContent);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = (((event.clientX - box.left) / box.width) * BOX.width - BOX.left) /
      (BOX.width - BOX.left - BOX.right) * xMax;
    curves.forEach(({name}, i) => {
      if (points[i].length === 0) return;
      const near = points[i].reduce((best, one) => Math.abs(one.x - x) < Math.abs(best.x - x) ? one : best);
      legend[i].textContent = `${name} ${format(near.y)} at ${xFormat(near.x)}`;
      here.setAttribute("x1", px(near.x));
      here.setAttribute("x2", px(near.x));
    });
    here.setAttribute("visibility", "visible");
  });
  svg.addEventListener("pointerleave", () => {
    here.setAttribute("visibility", "hidden");
    legend.forEach((one, i) => { one.textContent = newest[i]; });
  });
  return figure;
}

function drawCharts() {
  const made = [chart("loss (nats)", [{name: "test", color: "blue", key: "loss"},
    {name: "training", color: "red", key: "train_loss"}], (value) => fixed(value, 3))];
  if (rows.some((row) => !missing(row.accuracy))) {
    made.push(chart("accuracy", [{name: "test", color: "blue", key: "accuracy"}], (value) => percent(value, 1)));
  }
  made.push(chart("drift from neighbours", [{name: "", color: "blue", key: "drift"}],
    (value) => percent(value, 1)));
  made.push(chart("bytes", [{name: "sent", color: "blue", key: "bytes_sent"},
    {name: "received", color: "red", key: "bytes_received"}], bytes));
  byId("charts").replaceChildren(...made);
}

function drawAxes() {
  byId("axes").replaceChildren(...AXES.map(([key, name]) => {
    const button = element("button", name);
    button.setAttribute("aria-pressed", String(key === axis));
    button.addEventListener("click", () => {
      axis = key;
      drawAxes();
      drawCharts();
    });
    return button;
  }));
}

// --- the answers ---

const tile = (name, value, note) =>
  element("div", [element("span", name, "quiet"), element("b", value), element("span", note, "quiet")]);

/// The bytes that a ring all-reduce of the gradients among these peers would have sent, over the bytes
/// sent; nothing if no deltas are sent: the run reduces gradients itself, or exchanges nothing.
function savings(status, alive) {
  const newest = rows.at(-1);
  if (!newest || !newest.bytes_sent || alive < 2 || !status.bytes_sent.delta) return "";
  const ring = newest.steps * 2 * (alive - 1) / alive * 4 * status.parameters;
  const times = ring / newest.bytes_sent;
  return times < 2 ? "" : `${count(Math.round(times))} times fewer than an all-reduce`;
}

/// Whether others can dial the peer, and what to do if not.
function reachText({reach, outer_address, address, circuits_relayed}) {
  const at = outer_address ? ` at ${outer_address}` : "";
  const port = address.slice(address.lastIndexOf(":") + 1);
  const own = {
    "reachable": `Others can dial this peer${at}.`,
    "dials only": `Others cannot dial this peer${at}, so it dials them: to change that, let TCP port ${port} ` +
      "through the firewall, or forward it in the router to this machine.",
  }[reach] || "Whether others can dial this peer is not known yet.";
  return circuits_relayed > 0
    ? `${own} It relays ${circuits_relayed} circuit${circuits_relayed === 1 ? "" : "s"} for others.` : own;
}

function drawStatus(status, members) {
  const alive = members.filter((member) => member.state === "alive");
  const rate = alive.reduce((sum, member) => sum + (member.samples_per_second || 0), 0);
  const missingSamples = Math.max(status.target_samples - status.swarm_samples, 0);
  document.title = `${status.run}: ${status.name}`;
  byId("run").textContent = status.run;
  byId("phase").textContent = status.phase;
  byId("peer").textContent = `peer ${status.name} (${status.id.slice(0, 8)}) at ${status.address}, ` +
    `run ${status.run_id.slice(0, 8)}, ${count(status.parameters)} parameters`;
  byId("reach").textContent = reachText(status);
  byId("done").style.width = percent(Math.min(status.progress, 1));
  byId("samples").textContent = `${percent(status.progress, 1)} of the run: ${count(status.swarm_samples)} of ` +
    `${count(status.target_samples)} samples, by all peers`;
  byId("left").textContent = status.phase === "training" && rate > 0 && missingSamples > 0
    ? `about ${duration(missingSamples / rate)} left` : "";
  const speed = members.find((member) => member.self)?.samples_per_second;
  const drift = status.links > 0 || status.phase === "done" ? status.drift : null;  // the last stays
  const evaluated = status.whole_test_set ? "on the whole test set" : "on the test set";
  const loss = `loss ${fixed(status.loss, 4)}, ${evaluated}`;
  const quality = missing(status.loss)
    ? tile("test set", "-", "not evaluated yet")
    : !missing(status.bits_per_byte)
    ? tile("bits a byte", fixed(status.bits_per_byte, 3), loss)
    : missing(status.accuracy)
      ? tile("test loss", fixed(status.loss, 4), evaluated)
      : tile("accuracy", percent(status.accuracy), loss);
  byId("figures").replaceChildren(
    quality,
    tile("training loss", fixed(status.train_loss, 4), `learning rate ${status.learning_rate.toPrecision(3)}`),
    tile("samples/s", speed > 0 ? short(speed) : "-",
      alive.length > 1 ? `all ${alive.length} peers: ${rate > 0 ? short(rate) : "-"}` : "no other peer"),
    tile("drift", percent(drift), `${count(status.exchanges)} exchanges`),
    tile("sent", bytes(status.bytes_sent.total), savings(status, alive.length)),
    tile("links", String(status.links), `${status.shards} shards of the data`));
}

function drawFlock(members, links) {
  const drawn = members.slice(0, MEMBERS_DRAWN);
  const place = new Map(drawn.map((member, i) => {
    const angle = (i / drawn.length) * 2 * Math.PI - Math.PI / 2;
    return [member.id, {x: 95 * Math.cos(angle), y: 95 * Math.sin(angle)}];
  }));
  const radius = Math.max(1.5, Math.min(7, 150 / drawn.length));
  const own = place.get(drawn.find((member) => member.self)?.id);
  const lines = links.filter((link) => own && place.has(link.id)).map((link) => {
    const other = place.get(link.id);
    const line = shape("line", {class: link.via === null ? link.state : `${link.state} relayed`,
      x1: own.x, y1: own.y, x2: other.x, y2: other.y});
    line.append(shape("title", {}, `${link.name}: ${carrierOf(link)}`));
    return line;
  });
  const dots = drawn.map((member) => {
    const {x, y} = place.get(member.id);
    const dot = shape("circle", {class: member.self ? "self" : member.state, cx: x, cy: y,
      r: member.self ? radius * 1.4 : radius});
    dot.append(shape("title", {}, `${member.name}: ${member.self ? "this peer" : member.state}`));
    return dot;
  });
  byId("flock").replaceChildren(...lines, ...dots);
  const states = new Map();
  for (const {state} of members) states.set(state, (states.get(state) || 0) + 1);
  byId("states").textContent = [...states].map(([state, number]) => `${number} ${state}`).join(", ") +
    "; lines are links of this peer" + (links.some(({via}) => via !== null) ? ", dashed ones over a relay" : "");
}

function stateOf(member) {
  if (member.self) return "this peer";
  if (member.lost) return `${member.state} (${member.lost})`;
  if (member.learning_rate_apart) {
    return `learning rate ${short(member.learning_rate)}, ${count(Math.round(member.learning_rate_apart))} times off most`;
  }
  return member.relay && member.state === "alive" ? "relay" : member.state;
}

function drawTables(members, links) {
  // The last figures of a member that is gone, and those not measured yet, do not count.
  const current = (member, value) => ["alive", "suspect"].includes(member.state) ? value : null;
  fill(byId("members"), [
    ["name", (member) => named(member.name, member.state)],
    ["state", stateOf, "words"],
    ["reach", (member) => member.reach, "words"],
    ["samples", (member) => count(member.relay ? null : member.samples)],
    ["a second", (member) => short(current(member, member.samples_per_second || null))],
    ["share", (member) => percent(current(member, member.share))],
    ["accuracy", (member) => percent(member.accuracy)],
    ["loss", (member) => fixed(member.loss, 4)],
    ["drift", (member) => percent(current(member, member.links > 0 ? member.drift || null : null))],
    ["links", (member) => count(current(member, member.relay ? null : member.links))],
    ["addresses", (member) => member.addresses.join(" "), "words"],
  ], members.slice(0, MEMBERS_SHOWN), (member) => member.self ? "self" : "");
  byId("more").textContent = members.length > MEMBERS_SHOWN
    ? `and ${count(members.length - MEMBERS_SHOWN)} more: see members below` : "";
  fill(byId("links"), [
    ["to", (link) => named(link.name, link.state)],
    ["exchange", (link) => link.state, "words"],
    ["number", (link) => count(link.exchange)],
    ["drift", (link) => percent(link.drift)],
    ["trust", trustOf, "words"],
    ["density", (link) => percent(link.density, 3)],
    ["round trip", (link) => missing(link.round_trip_ms) ? "-" : `${fixed(link.round_trip_ms, 1)} ms`],
    ["Mbit/s", (link) => fixed(link.mbit, 1)],
    ["carrier", carrierOf],
    ["sent", (link) => bytes(link.bytes_sent.total)],
    ["received", (link) => bytes(link.bytes_received.total)],
  ], links);
}

/// Numbers of a CSV, null if a cell is empty.
function rowsOf(csv) {
  const [head, ...lines] = csv.trim().split("\n");
  const columns = head.split(",");
  return lines.map((line) => {
    const cells = line.split(",");
    return Object.fromEntries(columns.map((name, i) => [name, cells[i] ? Number(cells[i]) : null]));
  });
}

async function ask(path, read) {
  const patience = new AbortController();
  const waitFor = (milliseconds) => setTimeout(() => patience.abort(), milliseconds);
  let timer = waitFor(ANSWER_MS);
  try {
    const reply = await fetch(path, {cache: "no-store", signal: patience.signal});
    clearTimeout(timer);
    timer = waitFor(REST_MS);
    if (!reply.ok) throw new Error(`${path}: ${reply.status}`);
    return await read(reply);
  } finally {
    clearTimeout(timer);
  }
}

/// The peer's present answer; null if there is none.
async function answers(turn) {
  const json = (reply) => reply.json();
  try {
    const [status, members, links] = await Promise.all(
      ["status", "members", "links"].map((path) => ask(path, json)));
    const wantsRows = turn % HISTORY_EVERY === 0 || rows.length < 2 || status.phase === "done";
    const csv = wantsRows ? await ask("history", (reply) => reply.text()) : null;
    return {status, members, links, csv};
  } catch {
    return null;
  }
}

function show({status, members, links, csv}) {
  if (csv !== null) {
    rows = rowsOf(csv);
    drawCharts();
  }
  members.sort((a, b) => Number(b.self) - Number(a.self) || a.name.localeCompare(b.name));
  drawStatus(status, members);
  drawFlock(members, links);
  drawTables(members, links);
}

async function refresh(turn) {
  const answer = await answers(turn);
  setTimeout(refresh, REFRESH_MS, turn + 1);
  if (answer !== null) {
    answeredAt = new Date();
    isOver = answer.status.phase === "done";
    show(answer);
  }
  const said = byId("said");
  said.hidden = answer !== null && !isOver;
  said.className = isOver ? "end" : "alarm";
  said.textContent = isOver
    ? `This run is over. What is below is how it ended, at ${answeredAt.toLocaleTimeString()}.`
    : "This peer does not answer: it has ended, or cannot be reached. " +
      (answeredAt ? `What is below is of ${answeredAt.toLocaleTimeString()}.` : "");
}

drawAxes();
refresh(0);
