// Completion in a textarea: names that the server gave, the word before the cursor, a list that the keyboard works.
"use strict";

const MOST_SHOWN = 12;
const WORD = /(?:[\p{L}_][\p{L}\p{N}_$]*|"(?:[^"]|"")*"?)?(?:\.(?:[\p{L}_][\p{L}\p{N}_$]*|"(?:[^"]|"")*"?)?)*$/u;
const TABLE = /\b(?:from|join|update|into|table)\s+((?:[\p{L}_][\p{L}\p{N}_$]*|"(?:[^"]|"")*")(?:\.(?:[\p{L}_][\p{L}\p{N}_$]*|"(?:[^"]|"")*"))?)(?:\s+(?:as\s+)?([\p{L}_][\p{L}\p{N}_$]*|"(?:[^"]|"")*"))?/giu;
const WORDS_AFTER = new Set("where on set values group order limit join left right inner cross full using having union as natural".split(" "));

export class Completion {
  constructor(field, list, load) {
    this.field = field;
    this.list = list;
    this.load = load;
    this.names = null;
    this.chosen = -1;
    field.addEventListener("input", () => this.#typed());
    field.addEventListener("keydown", (event) => this.#key(event));
    field.addEventListener("blur", () => this.close());
    field.addEventListener("click", () => this.close());
    list.addEventListener("mousedown", (event) => {
      event.preventDefault(); // the field keeps the cursor
      const item = event.target.closest("li");
      if (item) this.#take([...list.children].indexOf(item));
    });
  }

  get isOpen() {
    return !this.list.hidden;
  }

  forget() {
    this.names = null;
  }

  close() {
    this.list.hidden = true;
    this.field.setAttribute("aria-expanded", "false");
    this.field.removeAttribute("aria-activedescendant");
  }

  async open(isForced) {
    this.names ??= this.load();
    const names = await this.names;
    const word = this.#word();
    if (!names || (!isForced && word.replaceAll('"', "").length < 2 && !word.includes("."))) return this.close();
    const found = this.#candidates(names, word).slice(0, MOST_SHOWN);
    if (!found.length || (found.length === 1 && found[0].text === word)) return this.close();
    this.list.replaceChildren(...found.map(({ text, kind }, number) => {
      const item = document.createElement("li");
      item.id = `name-${number}`;
      item.role = "option";
      item.dataset.text = text;
      const hint = document.createElement("span");
      hint.className = "dim";
      hint.textContent = kind;
      item.append(text, hint);
      return item;
    }));
    this.list.hidden = false;
    this.field.setAttribute("aria-expanded", "true");
    this.#place();
    this.#choose(0);
  }

  #typed() {
    const before = this.field.value.slice(0, this.field.selectionStart);
    if (/[\p{L}\p{N}_."]$/u.test(before)) this.open(false);
    else this.close();
  }

  #word() {
    return WORD.exec(this.field.value.slice(0, this.field.selectionStart))[0];
  }

  // What stands in the statement after FROM and the like, by its alias.
  #tables(names) {
    const found = new Map();
    for (const [, name, alias] of this.field.value.matchAll(TABLE)) {
      const relation = names.relations.find((one) => `${one.schema}.${one.name}` === name || (one.visible && one.name === name.toLowerCase()) || (one.visible && one.name === name));
      if (!relation) continue;
      found.set(relation.name, relation);
      if (alias && !WORDS_AFTER.has(alias.toLowerCase())) found.set(alias.toLowerCase(), relation);
    }
    return found;
  }

  #candidates(names, word) {
    const dot = word.lastIndexOf(".");
    const tables = this.#tables(names);
    const all = [];
    const add = (text, kind) => all.push({ text, kind });
    if (dot >= 0) {
      const [owner, head] = [word.slice(0, dot), `${word.slice(0, dot)}.`];
      const relation = tables.get(owner.toLowerCase()) ?? tables.get(owner) ?? names.relations.find((one) => `${one.schema}.${one.name}` === owner);
      for (const column of relation?.columns ?? []) add(head + column, "column");
      for (const one of names.relations) if (one.schema === owner) add(head + one.name, KINDS[one.kind] ?? "table");
    } else {
      for (const one of new Set(tables.values())) for (const column of one.columns) add(column, `column of ${one.name}`);
      for (const one of names.relations) if (one.visible) add(one.name, KINDS[one.kind] ?? "table");
      for (const one of names.schemas) add(one, "schema");
      for (const one of names.relations) if (!one.visible) add(`${one.schema}.${one.name}`, KINDS[one.kind] ?? "table");
      for (const one of names.keywords) add(word && word === word.toLowerCase() ? one.toLowerCase() : one, "keyword");
      for (const one of names.functions) add(one, "function");
    }
    const plain = (text) => text.toLowerCase().replaceAll('"', "");
    const sought = plain(word);
    const seen = new Set();
    const fits = all.filter(({ text }) => {
      const ok = plain(text).startsWith(sought) && !seen.has(text);
      seen.add(text);
      return ok;
    });
    const tail = word.slice(dot + 1);
    const inside = tail ? all.filter(({ text }) => !fits.some((one) => one.text === text) && plain(text).includes(plain(tail))) : [];
    return [...fits, ...inside];
  }

  #place() {
    const style = getComputedStyle(this.field);
    const before = this.field.value.slice(0, this.field.selectionStart - this.#word().length);
    const line = before.split("\n").length;
    const column = before.length - before.lastIndexOf("\n") - 1;
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = style.font;
    const left = this.field.offsetLeft + parseFloat(style.paddingLeft) + pen.measureText("0").width * column - this.field.scrollLeft;
    const top = this.field.offsetTop + parseFloat(style.paddingTop) + parseFloat(style.lineHeight) * line - this.field.scrollTop;
    const most = this.field.offsetLeft + this.field.clientWidth - this.list.offsetWidth;
    this.list.style.left = `${Math.max(0, Math.min(left, most))}px`;
    this.list.style.top = `${top + 2}px`;
  }

  #choose(number) {
    const items = [...this.list.children];
    this.chosen = (number + items.length) % items.length;
    items.forEach((item, at) => item.setAttribute("aria-selected", at === this.chosen));
    items[this.chosen].scrollIntoView({ block: "nearest" });
    this.field.setAttribute("aria-activedescendant", items[this.chosen].id);
  }

  #take(number) {
    const { text } = this.list.children[number].dataset;
    const end = this.field.selectionStart;
    this.field.setRangeText(text, end - this.#word().length, end, "end");
    this.close();
    this.field.dispatchEvent(new Event("change"));
  }

  #key(event) {
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      this.open(true);
    } else if (!this.isOpen || event.ctrlKey || event.altKey || event.metaKey) {
      return;
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      this.#choose(this.chosen + (event.key === "ArrowDown" ? 1 : -1));
    } else if (event.key === "Enter" || event.key === "Tab") {
      event.preventDefault();
      this.#take(this.chosen);
    } else if (event.key === "Escape") {
      event.preventDefault();
      this.close();
    } else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      this.close();
    }
  }
}

const KINDS = { v: "view", m: "view", S: "sequence" };
