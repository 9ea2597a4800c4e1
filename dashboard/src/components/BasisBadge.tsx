import { Badge } from "@mantine/core";
import { useTranslation } from "../i18n";


export const BASES = ["vendor", "measured", "inferred", "assumed"] as const;
export type Basis = (typeof BASES)[number];

const look = (color: string, line: string) => ({
  "--badge-color": color,
  "--badge-bd": `1px ${line} ${color}`,
  flexShrink: 0,
  minWidth: "max-content",
});

const LOOK: Record<string, ReturnType<typeof look>> = {
  vendor: look("var(--text-muted)", "solid"),
  measured: look("var(--tone-good)", "solid"),
  inferred: look("var(--text-muted)", "dashed"),
  assumed: look("var(--tone-warn)", "dashed"),
};

/** How a number came to be known. The dashed outline is what nobody measured or published. */
export function BasisBadge({ basis }: { basis: string }) {
  const { t } = useTranslation();
  return (
    <Badge variant="outline" size="sm" tt="none" fw={550} style={LOOK[basis]} title={t(`basisHelp.${basis}`, { defaultValue: "" })}>
      {t(`basis.${basis}`, { defaultValue: basis })}
    </Badge>
  );
}
