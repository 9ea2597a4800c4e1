import { useEffect } from "react";
import { useNavigate } from "react-router";

/** The pages of the menu, each reached with `g` and a letter. */
export const PAGES = [
  { page: "studies", key: "s" },
  { page: "sweep", key: "w" },
  { page: "rl", key: "r" },
  { page: "scripts", key: "t" },
  { page: "experts", key: "e" },
  { page: "compare", key: "c" },
  { page: "checks", key: "k" },
  { page: "accuracy", key: "a" },
  { page: "hardware", key: "h" },
  { page: "models", key: "m" },
] as const;

const SEQUENCE_MS = 1200;

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/** `g` then a letter goes to a page, `n` opens a new study, `/` jumps to the page's search field, `?` shows all this. */
export function useShortcuts(showHelp: () => void): void {
  const navigate = useNavigate();
  useEffect(() => {
    let goingUntil = 0;
    function onKey(event: KeyboardEvent) {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("[role=dialog]")) return;
      // When the key was pressed, not when a busy page came to it.
      const page = event.timeStamp < goingUntil ? PAGES.find(({ key }) => key === event.key) : undefined;
      goingUntil = event.key === "g" ? event.timeStamp + SEQUENCE_MS : 0;
      if (page) void navigate(`/${page.page}`);
      else if (event.key === "n") void navigate("/studies/new");
      else if (event.key === "?") showHelp();
      else if (event.key === "/") document.querySelector<HTMLElement>("[data-search]")?.focus();
      else return;
      event.preventDefault();
    }
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [navigate, showHelp]);
}
