// Plays timelines side by side on one clock, at a fraction of the speed at which they were decoded.

const HOLD = 0.4; // seconds of the viewer's time for which the first frame is seen

export class Player {
  #frame = 0;
  #end = () => {};

  // Calls `show(seconds)` for every moment until it says that all is shown; resolves to whether it came to that.
  play(pace, show) {
    this.stop();
    return new Promise((resolve) => {
      this.#end = resolve;
      const begin = performance.now();
      const step = (now) => {
        if (show(Math.max((now - begin) / 1000 - HOLD, 0) / pace)) resolve(true);
        else this.#frame = requestAnimationFrame(step);
      };
      this.#frame = requestAnimationFrame(step);
    });
  }

  stop() {
    cancelAnimationFrame(this.#frame);
    this.#end(false);
  }
}
