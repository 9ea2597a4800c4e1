/** Paper: before the browser takes its picture, the page is laid out as wide as A4 between margins, in light colours. */
import { useSyncExternalStore } from "react";
import { flushSync } from "react-dom";

let isPrinting = false;
const followers = new Set<() => void>();

function follow(follower: () => void): () => void {
  followers.add(follower);
  return () => followers.delete(follower);
}

/** Whether the page is being printed: what is drawn by hand is drawn anew then, at once. */
export const usePrinting = (): boolean => useSyncExternalStore(follow, () => isPrinting);

/** Tables that are wider than paper become smaller; their words and numbers stay whole. */
function fitTables(): () => void {
  const shrunk = [...document.querySelectorAll<HTMLElement>("main table")].filter((table) => {
    const room = table.parentElement?.clientWidth ?? 0;
    if (!room || table.scrollWidth <= room) return false;
    table.style.zoom = String(room / table.scrollWidth);
    return true;
  });
  return () => shrunk.forEach((table) => table.style.removeProperty("zoom"));
}

/** Follows the browser's printing; `base.css` holds what `data-printing` looks like. */
export function followPrinting(): void {
  const { dataset } = document.documentElement;
  let restore = (): void => undefined;
  const turn = (on: boolean) => {
    if (on === isPrinting) return;
    isPrinting = on;
    const scheme = dataset.mantineColorScheme;
    if (on) Object.assign(dataset, { printing: "", mantineColorScheme: "light" });
    else restore();
    flushSync(() => followers.forEach((tell) => tell()));
    if (!on) return;
    const unfit = fitTables();
    restore = () => {
      unfit();
      delete dataset.printing;
      if (scheme) dataset.mantineColorScheme = scheme;
    };
  };
  window.addEventListener("beforeprint", () => turn(true));
  window.addEventListener("afterprint", () => turn(false));
}
