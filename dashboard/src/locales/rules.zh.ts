import rules from "./zh/rules.json";

const namespaces: Record<string, Record<string, unknown>> = { rules };

export default namespaces;
