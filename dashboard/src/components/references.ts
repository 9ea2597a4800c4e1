import text from "../../../docs/references.md?raw";

export interface Reference {
  key: string;
  /** What the source is, in the words of docs/references.md. */
  title: string;
  url: string | null;
}

/** The table rows of docs/references.md by key. */
export function parsed(markdown: string): ReadonlyMap<string, Reference> {
  const found = new Map<string, Reference>();
  for (const [, key = "", source = ""] of markdown.matchAll(/^\| `([\w.-]+)` \| (.*?) \| [^|]* \|$/gm)) {
    const url = /<(https?:\/\/[^>]+)>/.exec(source)?.[1] ?? null;
    found.set(key, { key, title: source.replace(/\s*<[^>]*>\s*/g, " ").replaceAll("`", "").trim(), url });
  }
  return found;
}

const REFERENCES = parsed(text);

export interface Cited {
  key: string;
  /** A table, page or file inside the source. */
  place: string;
  reference: Reference | undefined;
}

/** `cloudmatrix384, table 2; msmodeling` as the sources it names. */
export function citedBy(source: string): Cited[] {
  return source
    .split(";")
    .map((part) => part.trim())
    .filter(Boolean)
    .map((part) => {
      const [key = "", ...place] = part.split(",");
      return { key: key.trim(), place: place.join(",").trim(), reference: REFERENCES.get(key.trim()) };
    });
}
