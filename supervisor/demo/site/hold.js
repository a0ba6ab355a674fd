// Shows "Released" on a held page when the server lets it go.
"use strict";

fetch("/held")
  .then((answer) => answer.json())
  .then(({ released }) => {
    const said = document.createElement("p");
    said.textContent = released ? "Released" : "Not released in time";
    document.querySelector("main").append(said);
  });
