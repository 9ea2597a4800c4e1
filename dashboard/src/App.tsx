import { MantineProvider } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "react-router/dom";

import { ApiError } from "./api/problem";
import { languageTag, subscribe } from "./i18n";
import { router } from "./router";
import { theme } from "./theme/theme";

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      // A server on this very machine answers without a network; the library's default would wait for one.
      networkMode: "always",
      staleTime: 2000,
      // A refusal stays one; silence may pass.
      retry: (failures, error) => failures < 2 && error instanceof ApiError && (error.status === 0 || error.status >= 502),
      retryDelay: (failures) => 500 * 2 ** failures,
    },
    mutations: { networkMode: "always" },
  },
});

// The server's sentences are in the language that was asked for: after a change of it, all are asked for again.
let asked = languageTag();
subscribe(() => {
  if (asked !== languageTag()) void queries.invalidateQueries();
  asked = languageTag();
});

export function App() {
  return (
    <MantineProvider theme={theme} defaultColorScheme="auto">
      <QueryClientProvider client={queries}>
        <Notifications position="bottom-right" />
        <RouterProvider router={router} />
      </QueryClientProvider>
    </MantineProvider>
  );
}
