import { Anchor, Tooltip } from "@mantine/core";

import { citedBy } from "./references";

/** A sentence whose `[key; key, place]` lead to the sources of docs/references.md. */
function Cited({ text }: { text: string }) {
  return text.split(/\[([^[\]]+)\]/).map((part, index) => {
    if (index % 2 === 0) return part;
    const sources = citedBy(part);
    if (!sources.some(({ reference }) => reference)) return `[${part}]`;
    return (
      <span key={index}>
        {"["}
        {sources.map(({ key, place, reference }, at) => (
          <span key={key + place}>
            {at > 0 && "; "}
            {reference?.url ? (
              <Tooltip label={reference.title}>
                <Anchor href={reference.url} target="_blank" rel="noreferrer" inherit underline="always">
                  {key}
                </Anchor>
              </Tooltip>
            ) : (
              key
            )}
            {place && `, ${place}`}
          </span>
        ))}
        {"]"}
      </span>
    );
  });
}

export default Cited;
