// Draws the live shelf again every 300 ms. In keyed mode each item keeps its element while it moves and changes its
// text; in replace mode every element is new each time. A reservation is counted by the server, once per request.
"use strict";

const PERIOD_MS = 300; // slower than a frame, faster than any agent's look-then-click
const list = document.getElementById("live");
const said = document.getElementById("said");
const replace = list.dataset.mode === "replace";
const books = Array.from(list.children, (item) => ({ key: item.dataset.key, title: item.dataset.title, reserved: 0 }));
list.replaceChildren();

const elements = new Map();
let tick = 0;

async function reserve(book) {
  const answer = await fetch("/live/reserve", {
    method: "POST",
    headers: { "Content-Type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams({ book: book.key }),
  });
  if (!answer.ok) {
    said.textContent = `The reservation failed (${answer.status}).`;
    return;
  }
  book.reserved = Number((await answer.json()).reserved);
  said.textContent = `Reserved: ${book.title}`;
}

function make(book) {
  const item = document.createElement("li");
  const title = document.createElement("span");
  const readers = document.createElement("small");
  const button = document.createElement("button");
  item.dataset.key = book.key;
  title.textContent = book.title;
  button.type = "button";
  button.textContent = "Reserve";
  button.setAttribute("aria-label", `Reserve ${book.title}`);
  button.addEventListener("click", () => void reserve(book));
  item.append(title, readers, button);
  return item;
}

function draw() {
  tick += 1;
  // One book is out at a time and the rest move up by one: positions never mean the same book twice in a row.
  const shown = books.map((_, place) => books[(place + tick) % books.length]).slice(1);
  const items = shown.map((book) => {
    const item = (!replace && elements.get(book.key)) || make(book);
    elements.set(book.key, item);
    const readers = 1 + ((Number(book.key) * 7 + tick) % 9);
    const held = book.reserved ? `, reserved ${book.reserved}×` : "";
    item.children[1].textContent = `${readers} reading now${held}`;
    return item;
  });
  if (replace) {
    list.replaceChildren(...items);
    return;
  }
  for (const item of Array.from(list.children)) {
    if (!items.includes(item)) item.remove();
  }
  items.forEach((item, place) => {
    if (list.children[place] !== item) list.insertBefore(item, list.children[place] ?? null);
  });
}

draw();
setInterval(draw, PERIOD_MS);
