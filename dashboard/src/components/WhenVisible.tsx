import { useIntersection } from "@mantine/hooks";
import { useEffect, useState, type ReactNode } from "react";

import { usePrinting } from "../theme/printing";

const AHEAD = "300px";

/** Keeps the place of something costly until the reader comes near it. */
export function WhenVisible({ height, children }: { height: number; children: ReactNode }) {
  const { ref, entry } = useIntersection<HTMLDivElement>({ rootMargin: AHEAD });
  const isPrinting = usePrinting(); // paper has no place to come near
  const [wasSeen, setSeen] = useState(false);
  useEffect(() => {
    if (entry?.isIntersecting) setSeen(true);
  }, [entry]);
  return (
    <div ref={ref} style={{ minHeight: height }}>
      {(wasSeen || isPrinting) && children}
    </div>
  );
}
