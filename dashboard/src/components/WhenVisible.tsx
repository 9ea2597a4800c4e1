import { useIntersection } from "@mantine/hooks";
import { useEffect, useState, type ReactNode } from "react";
import { flushSync } from "react-dom";

const AHEAD = "300px";

/** Keeps the place of something costly until the reader comes near it. */
export function WhenVisible({ height, children }: { height: number; children: ReactNode }) {
  const { ref, entry } = useIntersection<HTMLDivElement>({ rootMargin: AHEAD });
  const [wasSeen, setSeen] = useState(false);
  useEffect(() => {
    if (entry?.isIntersecting) setSeen(true);
  }, [entry]);
  useEffect(() => {
    const show = () => flushSync(() => setSeen(true)); // paper has no place to come near
    window.addEventListener("beforeprint", show);
    return () => window.removeEventListener("beforeprint", show);
  }, []);
  return (
    <div ref={ref} style={{ minHeight: height }}>
      {wasSeen && children}
    </div>
  );
}
