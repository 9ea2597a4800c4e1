import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const SERVER = process.env.MESHPLAN_URL ?? "http://127.0.0.1:8765";

export default defineConfig({
  plugins: [react()],
  // The server takes requests of its own pages only, so the proxy speaks to it under its own name.
  server: { port: 5173, proxy: { "/v1": { target: SERVER, changeOrigin: true, headers: { origin: SERVER } }, "/healthz": SERVER } },
  build: {
    outDir: process.env.DASHBOARD_OUT ?? "../app/static/dashboard",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 800,
    // The build is committed: the same sources give the same bytes under the same names.
    rolldownOptions: {
      output: {
        entryFileNames: "assets/[name].js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/[name][extname]",
        // Exports keep their names: with short ones, a new export renames others in every file that imports the chunk.
        minifyInternalExports: false,
        // Libraries apart from our own code: they change seldom, and charts are loaded by the pages that draw some.
        // What a few pages take of them is loaded with these.
        codeSplitting: {
          groups: [
            { name: "charts", test: /node_modules\/(zrender\/(?!lib\/svg)|echarts\/(?!lib\/(chart\/heatmap|chart\/parallel|component\/parallel|coord\/parallel|component\/(axis\/[Pp]arallel|helper\/([Bb]rush|sliderMove))|component\/visualMap|visual\/visual|renderer\/installSVG)))/ },
            { name: "vendor", minShareCount: 9, test: /node_modules\// },
            { name: "shared", minShareCount: 5, test: /src\/(api|components(?!\/(chart|ChartCard|Sentences))|state|theme|units(?!\/currency))\// },
          ],
        },
      },
    },
  },
});
