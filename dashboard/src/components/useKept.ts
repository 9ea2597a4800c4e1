import { useCallback, useState } from "react";

const MOST = 1_000_000; // characters: a browser keeps five million of a site

/** A text too long for the address, kept in this tab over a reload. */
export function useKept(name: string, initial = ""): [string, (text: string) => void] {
  const place = `meshplan-${name}`;
  const [text, setText] = useState(() => sessionStorage.getItem(place) ?? initial);
  const set = useCallback(
    (next: string) => {
      setText(next);
      if (next && next.length <= MOST) sessionStorage.setItem(place, next);
      else sessionStorage.removeItem(place);
    },
    [place],
  );
  return [text, set];
}
