// The slider and the play button over a stored run.

import { put, whole } from "./text.js";

export class Player {
  constructor({ section, play, slider, output, speed }, show) {
    Object.assign(this, { section, play, slider, output, speed, show, playing: false });
    slider.addEventListener("input", () => this.go(Number(slider.value)));
    play.addEventListener("click", () => this.toggle());
  }

  setScene(rounds) {
    this.rounds = rounds;
    this.stop();
    this.section.hidden = false;
    this.slider.max = String(rounds.length - 1);
    this.go(rounds.length - 1);
  }

  go(frame) {
    this.frame = Math.max(0, Math.min(frame, this.rounds.length - 1));
    this.slider.value = String(this.frame);
    const text = `round ${whole(this.rounds[this.frame])} of ${whole(this.rounds.at(-1))}`;
    this.slider.setAttribute("aria-valuetext", text);
    put(this.output, text);
    this.show(this.frame);
  }

  toggle() {
    if (this.playing) {
      this.stop();
      return;
    }
    if (this.frame === this.rounds.length - 1) this.go(0);
    this.playing = true;
    put(this.play, "Pause");
    let last = performance.now();
    let due = 0;
    const step = (now) => {
      if (!this.playing) return;
      due += ((now - last) / 1000) * Number(this.speed.value);
      last = now;
      const frames = Math.floor(due);
      due -= frames;
      if (frames) this.go(this.frame + frames);
      if (this.frame === this.rounds.length - 1) this.stop();
      else requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  stop() {
    this.playing = false;
    put(this.play, "Play");
  }
}
