import { Button } from "@mantine/core";
import { useTranslation } from "../i18n";
import { useRouteError } from "react-router";

import { ApiError, toApiError } from "../api/problem";
import { ErrorState } from "../components/ErrorState";

// What browsers say of a part of a page that the server did not send: Chromium, Firefox, Safari, and Vite of its styles.
const NOT_LOADED = /dynamically imported module|importing a module script|preload CSS/i;

/** The error boundary of every page. */
export function PageError() {
  const { t } = useTranslation();
  const error = useRouteError();
  if (error instanceof ApiError) return <ErrorState error={error} action={<Reload />} />;
  const detail = error instanceof Error ? error.message : String(error);
  if (NOT_LOADED.test(detail)) return <NotLoaded />;
  return <ErrorState title={t("error.pageFailed")} detail={detail} action={<Reload />} />;
}

/** In place of a page whose own files did not come: the server that has them is gone. */
export function NotLoaded() {
  return <ErrorState error={toApiError(undefined)} action={<Reload />} />;
}

function Reload() {
  const { t } = useTranslation();
  return (
    <Button variant="default" onClick={() => window.location.reload()}>
      {t("error.reload")}
    </Button>
  );
}
