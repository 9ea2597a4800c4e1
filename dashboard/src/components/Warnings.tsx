import { Alert } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";

/** What the server warns of; nothing where it does not. */
export function Warnings({ warnings, mb = 0 }: { warnings: readonly string[]; mb?: number | string }) {
  if (warnings.length === 0) return null;
  return (
    <Alert color="orange" variant="light" icon={<IconAlertTriangle size={18} />} mb={mb} c="inherit">
      {warnings.join(" ")}
    </Alert>
  );
}
