(() => {
  "use strict";
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const element = (tag, className, text = "") => {
    const made = document.createElement(tag);
    made.className = className;
    made.textContent = text;
    return made;
  };
  const drawn = (tag, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  };
  const dataOf = (within) => JSON.parse(within.querySelector(":scope > script").textContent);
  const clamp = (value, low, high) => Math.max(low, Math.min(value, high));
  document.documentElement.classList.add("js");

  for (const button of all(".copy")) {
    const code = button.parentElement.querySelector("code");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(code);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }

  // Words at the pointer.
  const tip = document.getElementById("tip");
  const said = document.getElementById("said");
  let whereTip = null;
  const hideTip = () => { tip.hidden = true; };
  const placeTip = () => {
    if (tip.hidden) return;
    const [x, y] = whereTip();
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${clamp(x + 12, 4, innerWidth - width - 4)}px`;
    tip.style.top = `${y - height - 12 > 4 ? y - height - 12 : y + 18}px`;
  };
  const showTip = (text, where) => {
    tip.textContent = text;
    tip.hidden = false;
    whereTip = where;
    placeTip();
  };
  for (const place of all("[data-tip]")) {
    const where = () => {
      const { left, top } = place.getBoundingClientRect();
      return [left, top];
    };
    const show = () => showTip(place.dataset.tip, where);
    for (const event of ["pointerenter", "focus"]) place.addEventListener(event, show);
    for (const event of ["pointerleave", "blur"]) place.addEventListener(event, hideTip);
  }
  addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
  addEventListener("scroll", placeTip, { passive: true, capture: true });

  // Tables: a head sorts one way, then the other, and then puts the rows back.
  for (const table of all("table.results")) {
    const body = table.tBodies[0];
    const order = [...body.rows];
    const heads = all("thead th", table);
    heads.forEach((head, column) => {
      const first = column && table.dataset.best !== "lowest" ? "descending" : "ascending";
      const second = first === "ascending" ? "descending" : "ascending";
      head.querySelector("button").addEventListener("click", () => {
        const now = head.getAttribute("aria-sort");
        const next = !now ? first : now === first ? second : null;
        for (const other of heads) other.removeAttribute("aria-sort");
        if (next) head.setAttribute("aria-sort", next);
        body.append(...(next ? sorted(order, column, next === "descending" ? -1 : 1) : order));
      });
    });
  }
  function sorted(rows, column, sign) {
    if (!column) {
      const text = (row) => row.cells[0].textContent;
      return [...rows].sort((a, b) => sign * text(a).localeCompare(text(b), "en", { numeric: true }));
    }
    const value = (row) => row.cells[column].dataset.v;
    const known = rows.filter((row) => value(row) !== undefined);
    known.sort((a, b) => sign * (Number(value(a)) - Number(value(b))));
    return [...known, ...rows.filter((row) => value(row) === undefined)];
  }

  // Charts: the nearest point says what it is. How far the pointer reaches:
  const reaches = { curves: 40, scatter: 14 };
  function explore(box, kind, rows, groups) {
    const svg = box.querySelector("svg");
    const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    const ring = drawn("circle", { class: "ring", r: 6 });
    let at = null;
    const seen = (row) => rows[row].p.length > 0 && !groups(row)?.matches(".off, .dim");
    const hide = () => {
      ring.remove();
      hideTip();
      at = null;
    };
    const show = (row, point, aloud) => {
      const [x, y, text] = rows[row].p[point];
      const words = `${rows[row].n}\n${text}`;
      ring.setAttribute("cx", x);
      ring.setAttribute("cy", y);
      svg.append(ring);
      at = [row, point];
      showTip(words, () => {
        const frame = svg.getBoundingClientRect();
        return [frame.left + (x * frame.width) / width, frame.top + (y * frame.height) / height];
      });
      if (aloud) said.textContent = words;
    };
    const point = (event) => {
      const frame = svg.getBoundingClientRect();
      const px = ((event.clientX - frame.left) * width) / frame.width;
      const py = ((event.clientY - frame.top) * height) / frame.height;
      let best = reaches[kind];
      let found = null;
      rows.forEach((row, r) => {
        if (!seen(r)) return;
        row.p.forEach(([x, y], k) => {
          const distance = Math.hypot(x - px, y - py);
          if (distance < best) [best, found] = [distance, [r, k]];
        });
      });
      if (found) show(...found);
      else hide();
    };
    const step = (by, isDown) => {
      const open = rows.map((_, r) => r).filter(seen);
      if (!open.length) return;
      if (!at || !open.includes(at[0])) return show(open[0], 0, true);
      if (!isDown) return show(at[0], clamp(at[1] + by, 0, rows[at[0]].p.length - 1), true);
      const row = open[clamp(open.indexOf(at[0]) + by, 0, open.length - 1)];
      show(row, Math.min(at[1], rows[row].p.length - 1), true);
    };
    box.addEventListener("pointermove", point);
    box.addEventListener("pointerdown", point);
    box.addEventListener("pointerleave", hide);
    box.addEventListener("blur", hide);
    box.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: [-1, false], ArrowRight: [1, false], ArrowUp: [-1, true], ArrowDown: [1, true] }[event.key];
      if (!move) return;
      event.preventDefault();
      step(...move);
    });
  }
  for (const figure of all("figure:not(.matches-figure)")) {
    const kind = Object.keys(reaches).find((name) => figure.classList.contains(`${name}-figure`));
    const isScatter = kind === "scatter";
    for (const box of all(".plot", figure)) {
      const svg = box.querySelector("svg");
      const series = all("[data-c]", svg);
      const group = (row) => (isScatter ? series[row] : svg.querySelector(`[data-series="${row}"]`));
      explore(box, kind, dataOf(box), group);
    }
    const buttons = all(".legend button", figure);
    const toggle = (button) => {
      const isPressed = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(isPressed));
      return isPressed;
    };
    const chosen = (name) => new Set(
      buttons.filter((button) => button.dataset.kind === name && button.getAttribute("aria-pressed") === "true")
        .map((button) => button.dataset.k),
    );
    for (const button of buttons) {
      button.addEventListener("click", () => {
        const isPressed = toggle(button);
        if (!isScatter) {
          for (const mark of all(`[data-series="${button.dataset.k}"]`, figure)) mark.classList.toggle("off", !isPressed);
          return;
        }
        const [classes, views] = [chosen("c"), chosen("v")];
        for (const group of all("[data-c]", figure)) {
          const out = (classes.size && !classes.has(group.dataset.c)) || (views.size && !views.has(group.dataset.v));
          group.classList.toggle("dim", Boolean(out));
        }
      });
    }
  }

  // Matches.
  for (const figure of all("figure.matches-figure")) {
    const { size: [width, height], key, digits, labels, probes } = dataOf(figure);
    const find = (name) => figure.querySelector(name);
    const [method, filter, place, cards] = [".method", ".filter", ".place", ".browser .cards"].map(find);
    let at = 0;
    const card = (image, head, below, kind) => {
      const made = element("div", `card ${kind}`);
      const picture = drawn("svg", { viewBox: `0 0 ${width} ${height}`, class: "picture", "aria-hidden": "true" });
      picture.append(drawn("use", { href: `#${key}.image-${image}` }));
      made.append(picture, element("div", "head", head), element("div", "below", below));
      return made;
    };
    const draw = () => {
      const isRight = ([image, matches]) => matches.length > 0 && labels[matches[0][0]] === labels[image];
      const wanted = (probes[method.value] ?? []).filter(
        (probe) => !filter.value || isRight(probe) === (filter.value === "right"),
      );
      at = clamp(at, 0, Math.max(wanted.length - 1, 0));
      find(".previous").disabled = at === 0;
      find(".next").disabled = at >= wanted.length - 1;
      cards.replaceChildren();
      if (!wanted.length) {
        place.textContent = filter.value ? `no ${filter.value} probes` : "no probes";
        return;
      }
      const [image, matches] = wanted[at];
      const label = labels[image];
      place.textContent = `probe ${at + 1} of ${wanted.length}, class ${label}`;
      const ranked = element("div", "ranked");
      cards.append(card(image, label, "probe", "probe"), ranked);
      for (const [other, distance] of matches) {
        const right = labels[other] === label;
        const head = `${right ? "✓" : "✗"} ${labels[other]}`;
        ranked.append(card(other, head, distance.toFixed(digits), right ? "right" : "wrong"));
      }
    };
    const go = (by) => { at += by; draw(); };
    find(".previous").addEventListener("click", () => go(-1));
    find(".next").addEventListener("click", () => go(1));
    for (const choice of [method, filter]) choice.addEventListener("change", () => { at = 0; draw(); });
    find(".browser").addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by || event.target.matches("select")) return;
      event.preventDefault();
      go(by);
    });
    draw();
  }

  // The contents show where one is.
  const links = new Map(all(".toc ol ol a").map((link) => [link.getAttribute("href").slice(1), link]));
  const watch = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) links.get(target.id).setAttribute("aria-current", "true");
      else links.get(target.id).removeAttribute("aria-current");
    }
  }, { rootMargin: "-20% 0px -60% 0px" });
  for (const id of links.keys()) watch.observe(document.getElementById(id));
})();
