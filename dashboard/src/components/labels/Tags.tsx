import { Badge, Group } from "@mantine/core";
import { Link } from "react-router";

/** The tags of a study, each a link to the studies that have it; `sayOf` is what screen readers hear. */
export function Tags({ tags, sayOf }: { tags: readonly string[]; sayOf: (tag: string) => string }) {
  if (!tags.length) return null;
  return (
    <Group gap={4}>
      {tags.map((tag) => (
        <Badge
          key={tag}
          component={Link}
          to={`/studies?tag=${encodeURIComponent(tag)}`}
          variant="default"
          tt="none"
          fw={500}
          maw="100%"
          aria-label={sayOf(tag)}
          style={{ cursor: "pointer" }}
        >
          {tag}
        </Badge>
      ))}
    </Group>
  );
}
