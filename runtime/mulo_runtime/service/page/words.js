// Suggestions of the words that the bundle knows, and what is wrong with a prompt before it is sent.

const SHOWN = 40;

export function unknownWord(text, known) {
  if (!known.length) return null;
  return text.toLowerCase().split(/\s+/).find((word) => word && !known.includes(word)) ?? null;
}

// The words that may complete what is being typed; all of them where a new word is about to begin.
function candidates(text, known) {
  const begun = /\s$/.test(text) || !text ? "" : text.toLowerCase().split(/\s+/).at(-1);
  return known.filter((word) => word.startsWith(begun) && !known.includes(begun));
}

function completed(text, word) {
  const words = text.split(/\s+/).filter(Boolean);
  const begun = /\s$/.test(text) ? "" : words.at(-1) ?? "";
  if (begun && word.startsWith(begun.toLowerCase())) words.pop();
  return `${[...words, word].join(" ")} `;
}

export function chips(container, labels, choose) {
  container.replaceChildren(...labels.map((label) => {
    const chip = document.createElement("button");
    chip.type = "button";
    chip.textContent = label;
    chip.addEventListener("click", () => choose(label));
    return chip;
  }));
}

export function suggestWords(input, container, note, known) {
  const refresh = () => {
    chips(container, candidates(input.value, known).slice(0, SHOWN), (word) => {
      input.value = completed(input.value, word);
      refresh();
      input.focus();
    });
    const typing = /\s$/.test(input.value) ? null : input.value.toLowerCase().split(/\s+/).at(-1);
    const wrong = unknownWord(input.value, known);
    const begun = wrong === typing && known.some((word) => word.startsWith(wrong));
    note.textContent = wrong && !begun ? `The bundle does not know the word “${wrong}”.` : "";
    note.classList.toggle("bad", Boolean(note.textContent));
  };
  input.addEventListener("input", refresh);
  refresh();
  return refresh;
}
