import { Button } from "@mantine/core";
import { useTranslation } from "../i18n";
import { useRouteError } from "react-router";

import { ApiError } from "../api/problem";
import { ErrorState } from "../components/ErrorState";

/** The error boundary of every page. */
export function PageError() {
  const { t } = useTranslation();
  const error = useRouteError();
  const reload = (
    <Button variant="default" onClick={() => window.location.reload()}>
      {t("error.reload")}
    </Button>
  );
  if (error instanceof ApiError) return <ErrorState error={error} action={reload} />;
  return <ErrorState title={t("error.pageFailed")} detail={error instanceof Error ? error.message : String(error)} action={reload} />;
}
