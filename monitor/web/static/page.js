// Keeps a page current without loading it anew. Every page works without this file.
"use strict";
(() => {
  const SECONDS = 15;
  const busy = () => {
    const active = document.activeElement;
    const writing = active && active.closest("form") && /^(INPUT|TEXTAREA|SELECT)$/.test(active.tagName);
    return document.hidden || writing || String(getSelection()).length > 0;
  };
  const refresh = async () => {
    if (busy()) return;
    let text;
    try {
      const answer = await fetch(location.href, {headers: {Accept: "text/html"}});
      if (!answer.ok) return;
      text = await answer.text();
    } catch {
      document.body.dataset.stale = "1";
      return;
    }
    if (busy()) return;
    const fresh = new DOMParser().parseFromString(text, "text/html");
    const open = new Set([...document.querySelectorAll("main details[open]")].map(d => d.id));
    for (const id of ["main", "nav", "foot"]) {
      const old = document.getElementById(id), now = fresh.getElementById(id);
      if (!old || !now || old.innerHTML === now.innerHTML) continue;
      const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
      old.replaceWith(document.adoptNode(now));
      for (const details of now.querySelectorAll("details")) if (details.id && open.has(details.id)) details.open = true;
      if (focused) document.getElementById(focused)?.focus({preventScroll: true});
    }
    delete document.body.dataset.stale;
    const said = fresh.getElementById("firing"), shown = document.getElementById("firing");
    if (said && shown && said.textContent !== shown.textContent) shown.textContent = said.textContent;
  };
  if (document.body.dataset.live !== undefined) setInterval(refresh, SECONDS * 1000);
})();
