// Draws one moment of an image: the draft below, final rows over it, candidates under their verdicts.

const REJECTED = "2";
const NEIGHBOUR = "3";
const COLOURS = { [REJECTED]: "#ef4d5c", [NEIGHBOUR]: "#f7a531" };

export class Stage {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.clear();
  }

  clear() {
    const { width, height } = this.canvas;
    this.context.globalAlpha = 1;
    this.context.fillStyle = "#1c2027";
    this.context.fillRect(0, 0, width, height);
    this.context.strokeStyle = "#2b303a";
    this.context.lineWidth = 1;
    this.context.beginPath();
    for (let offset = -height; offset < width; offset += 16) {
      this.context.moveTo(offset, height);
      this.context.lineTo(offset + height, 0);
    }
    this.context.stroke();
    this.canvas.setAttribute("aria-label", "No image yet");
  }

  // `glow` is 0 to 1: how strongly islands are lit.
  draw({ now, draft, verified, rows }, glow) {
    this.clear();
    if (!now) return;
    this.context.imageSmoothingEnabled = false;
    if (draft) this.#rows(draft.image, 0, 1);
    if (rows) this.#rows(rows.image, 0, rows.stage === "done" ? 1 : rows.rows / rows.total);
    if (now.stage === "verified") this.#verdicts(now, rows ? rows.rows / rows.total : 0, glow);
    else if (now.stage === "rows" && now.rows < now.total) this.#edge(now.rows / now.total);
    this.canvas.setAttribute("aria-label", describe(now, verified));
  }

  // The part of `image` between two shares of its height.
  #rows(image, from, to) {
    const { width, height } = this.canvas;
    const top = from * image.naturalHeight;
    const tall = (to - from) * image.naturalHeight;
    this.context.drawImage(image, 0, top, image.naturalWidth, tall, 0, from * height, width, (to - from) * height);
  }

  #verdicts(frame, from, glow) {
    const to = frame.rows / frame.total;
    this.#rows(frame.image, from, to);
    const { width, height } = this.canvas;
    this.context.globalAlpha = 0.55;
    this.context.fillStyle = "#101216";
    this.context.fillRect(0, from * height, width, (to - from) * height);
    const side = height / frame.acceptMap.length;
    frame.acceptMap.forEach((line, row) => {
      if (row < Math.round(from * frame.total) || row >= frame.rows) return;
      [...line].forEach((verdict, col) => this.#cell(verdict, col * side, row * side, side, glow));
    });
    this.context.globalAlpha = 1;
    this.#edge(to);
  }

  #cell(verdict, x, y, side, glow) {
    if (!(verdict in COLOURS)) return;
    this.context.globalAlpha = 0.45 + 0.55 * glow;
    this.context.fillStyle = COLOURS[verdict];
    this.context.fillRect(x, y, side, side);
  }

  #edge(share) {
    this.context.fillStyle = "#eceef2";
    this.context.fillRect(0, share * this.canvas.height - 2, this.canvas.width, 2);
  }
}

function describe(now, verified) {
  if (now.stage === "draft") return `Draft of ${now.rows} rows at low resolution`;
  if (now.stage === "verified") return `${now.rows} of ${now.total} rows verified, ${lit(now)} tokens lit to be resampled`;
  if (now.stage === "rows") return `${now.rows} of ${now.total} rows final`;
  return verified ? "Finished image, verified" : "Finished image";
}

export function lit(frame) {
  return frame.acceptMap.join("").replace(/[^23]/g, "").length;
}
