import { List } from "@mantine/core";
import { Suspense } from "react";

import { lazyPart } from "./lazyPart";

const Cited = lazyPart(async () => (await import("./Cited")).default);

/** Sentences of an answer, a line each, with links to what they cite. */
export function Sentences({ texts }: { texts: readonly string[] }) {
  return (
    <List size="sm" spacing={4} mt="xs" style={{ overflowWrap: "anywhere" }}>
      {texts.map((text) => (
        <List.Item key={text}>
          <Suspense fallback={text}>
            <Cited text={text} />
          </Suspense>
        </List.Item>
      ))}
    </List>
  );
}
