// Shows "Released" on a held page when the server lets it go, and how long it was held until then. One wait of a visitor is
// bounded, so a long hold is waited for in steps: every step is there at once when the page is released.
"use strict";

const STEPS_S = [20, 40];
const main = document.querySelector("main");
const left = STEPS_S.map((seconds) => ({ seconds, timer: setTimeout(() => say(`Held for ${seconds} s`), seconds * 1000) }));

function say(text) {
  const said = document.createElement("p");
  said.textContent = text;
  main.append(said);
}

fetch("/held")
  .then((answer) => answer.json())
  .then(({ released }) => {
    for (const { seconds, timer } of left) {
      clearTimeout(timer);
      if (!main.textContent.includes(`Held for ${seconds} s`)) say(`Held for ${seconds} s at most`);
    }
    say(released ? "Released" : "Not released in time");
  });
